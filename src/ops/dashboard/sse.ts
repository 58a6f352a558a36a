/**
 * Server-sent events out of the body of a `fetch`: an EventSource can't send a token. Pure.
 *
 * @module
 */

/** One event. */
export interface ServerEvent {
  readonly name: string;
  readonly data: string;
}

/** Takes text as it comes and gives the events that are whole with it. */
export class EventParser {
  #rest = "";

  /** Ends of lines are LF, as the relay sends them. */
  push(text: string): ServerEvent[] {
    const blocks = (this.#rest + text).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.map(readBlock).filter(({ data }) => data !== "");
  }
}

function readBlock(block: string): ServerEvent {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, field, value = ""] = /^(\w+):? ?(.*)$/.exec(line) ?? [];
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return { name, data: data.join("\n") };
}
