/**
 * The names that the contract gives to the queues of a relay, said once for the tests. The
 * product's own code for it is not used: a test that asks the product what is right agrees with it.
 *
 * @module
 */

/** The contract's default ladder. */
export const DEFAULT_LADDER = "2x0s,5x3s,5x15s,5x60s,5x120s,5x240s";

const DELAY_LEVELS = 20;

/** The queues of one relay. */
export interface QueueNames {
  readonly main: string;
  /** One for each delay of the ladder that is not zero, in its order. */
  readonly retries: readonly string[];
  readonly failed: string;
  /** These seven (with the default ladder), in the order of a task's way. */
  readonly all: readonly string[];
  /** The levels for delays that are no rung; the relay declares them when it first needs one. */
  readonly delays: readonly string[];
  /** The switch that is there while delivering is paused. */
  readonly paused: string;
}

const MS_PER_UNIT: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * The names that the contract gives to the queues of a QUEUE_PREFIX and a RETRY_LADDER.
 *
 * @throws {TypeError} when the ladder is none
 */
export function queueNames(prefix: string, ladder: string = DEFAULT_LADDER): QueueNames {
  const main = `${prefix}.main`;
  const failed = `${prefix}.failed`;
  const seconds = new Set(ladder.split(",").map(secondsOfRung).filter((delay) => delay > 0));
  const retries = [...seconds].map((delay) => `${prefix}.retry.${delay}s`);
  const levels = Array.from({ length: DELAY_LEVELS }, (_, n) => 2 ** n);
  const delays = [0, ...levels].map((seconds) => `${prefix}.delay.${seconds}s`);
  const all = [main, ...retries, failed];
  return { main, retries, failed, all, delays, paused: `${prefix}.paused` };
}

function secondsOfRung(rung: string): number {
  const [, amount, unit = ""] = /^\s*\d+x([\d.]+)(ms|s|m|h)\s*$/.exec(rung) ?? [];
  const ms = Number(amount) * (MS_PER_UNIT[unit] ?? NaN);
  if (Number.isNaN(ms)) throw new TypeError(`no rung of a ladder: ${JSON.stringify(rung)}`);
  return ms / 1000;
}
