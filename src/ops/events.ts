/**
 * `GET /events`: what `GET /stats` tells, once a second, as server-sent events
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html).
 *
 *     stats    the whole of it when the stream begins; without the history each second after that
 *     sample   each new sample of the history
 *
 * A reader that is slower than that, or that never reads, makes nobody wait and no memory grow: of
 * these three only the newest each waits for it, and who reads nothing for a minute is given up, as
 * its place may be needed. While nobody listens, nothing is looked at.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import { refuse } from "../http/answers.ts";
import type { Problem } from "../http/problem.ts";
import { RETRY_AFTER } from "../http/refusals.ts";
import type { Stats, StatsSample } from "./stats.ts";

const log = getLogger(["relay", "ops"]);

/** Streams that may be open at once. */
export const MOST_STREAMS = 32;

/** A reader is given up when so many events were replaced by newer ones before it read any. */
const MOST_MISSED = 60;

/** Between two events, milliseconds. */
const EVERY_MS = 1_000;

/** A browser connects again after so long, milliseconds. */
const RETRY_MS = 2_000;

const STREAM_HEADERS = { "content-type": "text/event-stream", "cache-control": "no-store" };

/** What the streams are fed with. */
export interface EventsOptions {
  readonly look: () => Promise<Stats>;
  readonly clock: Clock;
}

/** The open streams. */
export class Events {
  readonly #options: EventsOptions;
  readonly #streams = new Set<EventStream>();
  /** Aborts when nobody reads any more. */
  #unread = AbortSignal.abort();
  #stop: () => void = () => {};

  constructor(options: EventsOptions) {
    this.#options = options;
  }

  /** Opens a stream. */
  async open(request: Request): Promise<Response> {
    if (request.method === "HEAD") return new Response(null, { headers: STREAM_HEADERS });
    if (this.#streams.size >= MOST_STREAMS) return refuse(request, TOO_MANY);
    const stream = new EventStream(() => this.#remove(stream));
    this.#streams.add(stream);
    try {
      stream.send("first", await this.#options.look());
    } catch (error) {
      stream.end();
      throw error;
    }
    if (this.#streams.size > 0 && this.#unread.aborted) {
      this.#tellEachSecond().catch((error) => {
        log.error("events could not be told", { error });
        this.close(); // readers ask again
      });
    }
    return new Response(stream.body, { headers: STREAM_HEADERS });
  }

  /** Tells of a new sample. */
  sample(sample: StatsSample): void {
    for (const stream of this.#streams) stream.send("sample", sample);
  }

  /** Ends all streams. */
  close(): void {
    for (const stream of this.#streams) stream.end();
  }

  #remove(stream: EventStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size === 0) this.#stop();
  }

  async #tellEachSecond(): Promise<void> {
    const { clock, look } = this.#options;
    const unread = new AbortController();
    const { signal } = unread;
    this.#unread = signal;
    this.#stop = () => unread.abort();
    while (true) {
      await clock.sleep(EVERY_MS, signal);
      if (signal.aborted) return;
      const { history: _, ...stats } = await look();
      for (const stream of this.#streams) stream.send("stats", stats);
    }
  }
}

/** What may wait for a reader. */
type Kind = "first" | "stats" | "sample";

const EVENT_NAME = { first: "stats", stats: "stats", sample: "sample" } as const;

/** One reader. */
class EventStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly #onEnd: () => void;
  /** The newest of each kind that was not read yet, in the order in which the kinds came. */
  readonly #waiting = new Map<Kind, string>();
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #wanted: (() => void) | undefined;
  #begun = false;
  /** Events that were replaced since it last read. */
  #missed = 0;
  #ended = false;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
    this.body = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#controller = controller),
      pull: () => this.#pull(),
      cancel: () => this.#end(),
    }, { highWaterMark: 0 });
  }

  send(kind: Kind, data: unknown): void {
    if (this.#ended) return;
    if (this.#waiting.has(kind) && ++this.#missed > MOST_MISSED) return this.end();
    this.#waiting.set(kind, `event: ${EVENT_NAME[kind]}\ndata: ${JSON.stringify(data)}\n\n`);
    this.#wanted?.();
  }

  end(): void {
    if (this.#ended) return;
    this.#controller?.close();
    this.#end();
  }

  /** The reader can take more: it gets what waits, or what comes next. */
  async #pull(): Promise<void> {
    if (this.#waiting.size === 0) await new Promise<void>((resolve) => this.#wanted = resolve);
    this.#wanted = undefined;
    if (this.#ended) return;
    const retry = this.#begun ? "" : `retry: ${RETRY_MS}\n\n`;
    this.#begun = true;
    const text = retry + [...this.#waiting.values()].join("");
    this.#waiting.clear();
    this.#missed = 0;
    this.#controller?.enqueue(new TextEncoder().encode(text));
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#waiting.clear();
    this.#wanted?.();
    this.#onEnd();
  }
}

const TOO_MANY: Problem = {
  status: 503,
  detail: `${MOST_STREAMS} streams of events are open already. Close one, or ask for /stats.`,
  headers: RETRY_AFTER,
};
