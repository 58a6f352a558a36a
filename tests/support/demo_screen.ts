/**
 * What `deno task demo` shows: lines that scroll, and below them on a terminal a picture of where
 * the tasks are, drawn again in place. Without a terminal it is plain lines, fit for a file.
 *
 * @module
 */
import type { LogLine } from "./relay_log.ts";

const ENCODER = new TextEncoder();
const BAR_COLUMNS = 30;

/** A place where tasks are, and how many. */
export interface Gauge {
  readonly label: string;
  readonly count: number;
  readonly colour: Colour;
  /** What this place is, in a few words. */
  readonly note: string;
}

export type Colour = "green" | "yellow" | "red" | "cyan" | "grey" | "bold";

const CODES: Readonly<Record<Colour, number>> = {
  bold: 1,
  red: 31,
  green: 32,
  yellow: 33,
  cyan: 36,
  grey: 90,
};

/** Standard output. */
export class Screen {
  readonly #live: boolean = Deno.stdout.isTerminal();
  readonly #colours: boolean = this.#live && !Deno.env.get("NO_COLOR");
  /** Rows that the picture takes up now, above the cursor. */
  #rows = 0;
  #gauges: readonly Gauge[] = [];

  /** Whether pictures are drawn again in place. */
  get live(): boolean {
    return this.#live;
  }

  /** `text` in a colour, where there are colours. */
  paint(colour: Colour, text: string): string {
    return this.#colours ? `\x1b[${CODES[colour]}m${text}\x1b[0m` : text;
  }

  /** Writes lines; the picture, if there is one, moves down. */
  say(...lines: string[]): void {
    this.#write([...lines, ...this.#picture()]);
  }

  /** Draws the picture anew; without a terminal it is written once each time. */
  draw(gauges: readonly Gauge[]): void {
    this.#gauges = gauges;
    this.#write(this.#picture());
  }

  /** Leaves the picture where it is; what is said next comes below it. */
  settle(): void {
    this.#rows = 0;
    this.#gauges = [];
  }

  #picture(): string[] {
    if (this.#gauges.length === 0) return [];
    const widest = Math.max(...this.#gauges.map(({ label }) => label.length));
    const scale = Math.min(1, BAR_COLUMNS / Math.max(...this.#gauges.map(({ count }) => count)));
    // A row that wraps would be two, and the next picture would be drawn one row too low.
    const room = Math.max(0, this.#columns() - widest - BAR_COLUMNS - 11);
    const rows = this.#gauges.map(({ label, count, colour, note }) => {
      const bar = "■".repeat(Math.ceil(count * scale));
      const padding = " ".repeat(BAR_COLUMNS - bar.length);
      const start = `  ${label.padEnd(widest)} ${String(count).padStart(5)} `;
      const end = this.paint("grey", note.slice(0, room));
      return `${start}${this.paint(colour, bar)}${padding} ${end}`.trimEnd();
    });
    return this.#live ? ["", ...rows] : ["", ...rows, ""];
  }

  #columns(): number {
    return this.#live ? Deno.consoleSize().columns : 120;
  }

  /** Writes `lines` over the picture that is there. */
  #write(lines: readonly string[]): void {
    const up = this.#rows > 0 ? `\x1b[${this.#rows}A\x1b[J` : "";
    writeAll(`${up}${lines.map((line) => `${line}\n`).join("")}`);
    this.#rows = this.#live ? this.#picture().length : 0;
    if (!this.#live) this.#gauges = [];
  }
}

function writeAll(text: string): void {
  const bytes = ENCODER.encode(text);
  for (let written = 0; written < bytes.length;) {
    written += Deno.stdout.writeSync(bytes.subarray(written));
  }
}

/** One attempt, as the relay logged it, in plain words. */
export function attemptInWords(screen: Screen, name: string, line: LogLine): string {
  const number = `attempt ${String(line["attempt"])} of ${String(line["max_attempts"])}`;
  const answer = line["status"] === undefined ? line["outcome"] : line["status"];
  const [colour, then] = consequence(line);
  return `${name.padEnd(18)} ${number}   ${String(answer).padEnd(8)} ${screen.paint(colour, then)}`;
}

function consequence(line: LogLine): [Colour, string] {
  switch (line["disposition"]) {
    case "delivered":
      return ["green", "delivered"];
    case "retried": {
      const delay = /\.retry\.([\d.]+)s$/.exec(String(line["next_queue"]))?.[1];
      return ["yellow", delay ? `again in ${delay} s` : "again at once"];
    }
    case "failed":
      return [
        "red",
        line["attempt"] === line["max_attempts"]
          ? "failed: that was the last attempt"
          : "failed: no attempt will make it valid",
      ];
    default:
      return ["grey", String(line["disposition"])];
  }
}
