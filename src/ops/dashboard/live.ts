/**
 * The stream of figures, opened again and again for as long as the page is open.
 *
 * @module
 */

import type { Stats, StatsSample } from "../stats.ts";
import { request, TokenError } from "./relay_api.ts";
import { EventParser } from "./sse.ts";
import type { Now } from "./view.ts";

/** The relay sends every second; a stream that is silent for this long is dead. */
const SILENCE_MS = 10_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

/** Who is told. */
export interface Listener {
  /** A stream was opened, the first or another one. */
  onOpen(): void;
  onStats(stats: Now & Partial<Pick<Stats, "history">>): void;
  onSample(sample: StatsSample): void;
  onLost(): void;
}

/** Listens until the relay wants a token, or another one; settles with its words. */
export async function listen(listener: Listener): Promise<TokenError> {
  for (let wait = FIRST_WAIT_MS;; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      await readStream(listener, () => wait = FIRST_WAIT_MS);
    } catch (error) {
      if (error instanceof TokenError) return error;
    }
    listener.onLost();
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function readStream(listener: Listener, onData: () => void): Promise<void> {
  const aborting = new AbortController();
  let timer = setTimeout(() => aborting.abort(), SILENCE_MS);
  try {
    const { body } = await request("/events", { signal: aborting.signal });
    if (body === null) return;
    listener.onOpen();
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => aborting.abort(), SILENCE_MS);
      onData();
      for (const { name, data } of parser.push(value)) {
        if (name === "stats") listener.onStats(JSON.parse(data));
        if (name === "sample") listener.onSample(JSON.parse(data));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
