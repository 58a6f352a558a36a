/**
 * What a relay that begins to consume must assume of the one before it. Pure.
 *
 * Of several relays on one queue RabbitMQ lets one consume (single active consumer). When that one
 * dies, the next begins in the middle of a window that the first may have spent, and only what both
 * can see tells so: a send log on the same disk, other consumers on the queue, and deliveries that
 * somebody had before.
 *
 * @module
 */

/** What is known when the first delivery of a subscription arrives. All times monotonic ms. */
export interface TakeOver {
  readonly now: number;
  /** How long after a request the window that it was sent in is surely over. */
  readonly spanMs: number;
  /** Sends on record in this relay's send log, ascending. */
  readonly sends: readonly number[];
  /** Whether this relay declared the main queue itself just now: then nobody was before it. */
  readonly firstEver: boolean;
  /** Whether another consumer had the queue when this relay subscribed. */
  readonly followsAnother: boolean;
  /** Whether that first delivery had been delivered to somebody before. */
  readonly redelivered: boolean;
}

/** The moment before which no request may begin; in the past when there is nothing to wait for. */
export function earliestBegin(known: TakeOver): number {
  const windowFromNow = known.now + known.spanMs;
  // Nothing tells when the other one left, so it was a moment ago: the first delivery may wait in vain.
  if (known.followsAnother) return windowFromNow;
  if (known.firstEver) return -Infinity;
  // Without a log there may have been a relay on another disk that stopped a moment ago.
  const lastSend = known.sends.at(-1);
  if (lastSend === undefined) return windowFromNow;
  // Somebody held this delivery, and by the log it was not this relay: the log isn't the whole truth.
  const silent = lastSend + known.spanMs <= known.now;
  return known.redelivered && silent ? windowFromNow : -Infinity;
}
