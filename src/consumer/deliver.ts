/**
 * One delivery from limiter to settlement. It reads like the story in the README: wait for a slot,
 * claim the attempt, ask the backend, judge the answer, put the task where it goes next.
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { Claim } from "../ledger/attempt.ts";
import type { Content, Task } from "../task.ts";
import type { Backend } from "./backend.ts";
import { conclusionOf } from "./conclusion.ts";
import { dispose, disposeExhausted, disposeInvalid } from "./disposition.ts";
import type { Attempt, Rules } from "./disposition.ts";
import { rungOf } from "./ladder.ts";
import { HOLD_MS, LONGEST_WAITS } from "./hold.ts";
import type { Meters } from "./meters.ts";
import { signalOf } from "./outcome.ts";
import type { PatientLedger } from "./patient_ledger.ts";
import type { Delivery, Settlement } from "./ports.ts";
import { attemptLine } from "./report.ts";
import type { Slot, SlotSource } from "./waiting_line.ts";

const log = getLogger(["relay", "consumer"]);

/**
 * How often a claim is asked for that another holds, milliseconds: a task that is tried again at once
 * may come back a moment before its last attempt's end is recorded.
 */
const CONCLUDING_PAUSE_MS = 20;
const LEASED_PAUSE_MS = 500;

/** Before a request that was withheld is tried again: time to read what the sockets hold, ms. */
const WITHHELD_PAUSE_MS = 20;

/** What a delivery passes through. */
export interface Route {
  readonly limiter: SlotSource;
  readonly backend: Pick<Backend, "send">;
  /** Absent with LEDGER=off: then a delivery that comes twice is sent twice. */
  readonly ledger?: Pick<PatientLedger, "claim" | "abandon" | "conclude">;
  readonly rules: Rules & Pick<Config, "queues">;
  readonly meters: Pick<Meters, "attempt" | "disposition">;
  readonly clock: Clock;
}

/** When a delivery is given up. */
export interface Patience {
  /** When the delivery came, monotonic ms. */
  readonly since: number;
  /** Aborts when waiting for a slot is of no use any more: shutdown, or the subscription is lost. */
  readonly waiting: AbortSignal;
  /** Aborts when even requests in flight must end. */
  readonly inFlight: AbortSignal;
  /** Returns the delivery, unchanged, when no slot came. */
  readonly giveBack: (task: Task) => Promise<void>;
  /** Called when the request begins. */
  readonly began: () => void;
}

/** Handles `delivery` to its end. */
export async function deliver(delivery: Delivery, route: Route, patience: Patience): Promise<void> {
  const { content } = delivery;
  if (content.kind === "invalid") return await setAside(delivery, content, route);
  const { task } = content;
  if (rungOf(route.rules.ladder, task.attempt) === undefined) {
    return await exhaust(delivery, task, route, patience.inFlight);
  }
  const earlyMs = (task.notBefore ?? 0) - route.clock.now();
  if (earlyMs > 0) return void await delivery.settle({ to: "later", task, delayMs: earlyMs });

  const waitedFrom = route.clock.monotonic();
  while (true) {
    const leave = await getLeave(task, route, patience);
    if (leave === undefined) return await patience.giveBack(task);
    if (leave.kind !== "granted") return await pass(delivery, task, leave, route);
    const { slot, abandon } = leave;
    const limiterWaitMs = route.clock.monotonic() - waitedFrom;

    const attempt = await ask(task, slot, route, patience);
    if (patience.inFlight.aborted) return await cut(task, abandon);
    if (attempt !== undefined) {
      const about = { route, cut: patience.inFlight, limiterWaitMs, abandon };
      return await conclude(delivery, task, attempt, about);
    }
    // The gate closed on the way, the delivery was lost, the process stood still: no attempt was made.
    await abandon();
    await route.clock.sleep(WITHHELD_PAUSE_MS, patience.waiting);
  }
}

type NoLeave = Exclude<Claim, { kind: "granted" }>;

/** Leave to make an attempt. */
interface Leave {
  readonly kind: "granted";
  readonly slot: Slot;
  /** Gives the claim up, so that who is delivered the task next need not wait for the lease's end. */
  readonly abandon: () => Promise<void>;
}

/**
 * A slot and a claim; undefined when `waiting` aborted first, or when it was held for as long as it
 * may be and the limiter gave no slot or the ledger no answer. While another holds the claim the
 * delivery is kept and not sent through a delay, as long as it may be kept at all: a copy would have
 * no returns counted against it, and a task that kills the process each time would go on for ever.
 */
async function getLeave(
  task: Task,
  { limiter, ledger, clock }: Route,
  { waiting, since }: Pick<Patience, "waiting" | "since">,
): Promise<Leave | NoLeave | undefined> {
  const { id, attempt, enqueuedAt, redriven } = task;
  while (true) {
    const slot = await limiter.take(waiting, since);
    if (slot === undefined) return undefined;
    if (ledger === undefined) return { kind: "granted", slot, abandon: () => Promise.resolve() };
    const until = since + LONGEST_WAITS.altogether;
    const claim = await ledger.claim({ id, attempt, enqueuedAt, redriven }, waiting, until);
    if (claim?.kind === "granted") {
      const lease = { id, until: claim.until };
      return { kind: "granted", slot, abandon: () => ledger.abandon(lease) };
    }
    slot.release();
    if (claim?.kind !== "leased" || claim.waitMs > HOLD_MS) return claim;
    const pause = claim.concluding ? CONCLUDING_PAUSE_MS : LEASED_PAUSE_MS;
    await clock.sleep(Math.min(claim.waitMs, pause), waiting);
  }
}

/** Makes the attempt; undefined when the request was withheld. */
async function ask(
  task: Task,
  slot: Slot,
  { backend, clock }: Route,
  { waiting, inFlight, began }: Patience,
): Promise<Attempt | undefined> {
  const from = clock.monotonic();
  const beganAt = clock.now();
  const begin = (): boolean => {
    if (waiting.aborted) {
      slot.release(); // lost while it was claimed or connected: somebody else may have it
      return false;
    }
    const begins = slot.begin();
    if (begins) began();
    return begins;
  };
  const answer = await backend.send(task, begin, inFlight);
  if (answer === undefined) return undefined;
  // What the relay's own shutdown cut off says nothing of the backend.
  if (!inFlight.aborted) slot.end(signalOf(answer));
  return { beganAt, durationMs: clock.monotonic() - from, answer };
}

/** The shutdown cut the request off. The delivery stays unsettled, so that the broker keeps it. */
async function cut({ id: task_id, attempt }: Task, abandon: Leave["abandon"]): Promise<void> {
  log.warning("request cut off by the shutdown; the attempt is made again", { task_id, attempt });
  await abandon();
}

/**
 * The next hop is confirmed, then the ledger knows, then the delivery is acknowledged. The ledger is
 * told even when the delivery is lost: that is how the one that comes instead is known for a copy. If
 * it was lost before the next hop was confirmed, the one that comes instead is for the same attempt.
 */
async function conclude(
  delivery: Delivery,
  task: Task,
  attempt: Attempt,
  { route: { rules, ledger, meters }, cut, limiterWaitMs, abandon }: {
    readonly route: Route;
    readonly cut: AbortSignal;
    readonly limiterWaitMs: number;
    readonly abandon: Leave["abandon"];
  },
): Promise<void> {
  const settlement = dispose(task, attempt, rules, Math.random());
  let moved = false;
  const settled = await delivery.settle(settlement, async () => {
    moved = true;
    const request = conclusionOf(task, attempt, settlement);
    if (request) await ledger?.conclude(request, cut);
  });
  if (!moved) await abandon();
  const report = { task, attempt, limiterWaitMs, settlement, settled };
  log.info("attempt", attemptLine(report, rules));
  meters.attempt(report);
}

/** Settles a delivery whose attempt is not to be made. */
async function pass(
  delivery: Delivery,
  task: Task,
  claim: NoLeave,
  { meters }: Route,
): Promise<void> {
  const settlement: Settlement = claim.kind === "leased"
    ? { to: "later", task, delayMs: claim.waitMs }
    : { to: "done" };
  const settled = await delivery.settle(settlement);
  if (!settled) return;
  const { id: task_id, attempt } = task;
  const disposition = PASSED[claim.kind];
  log.info("attempt not made", { task_id, attempt, reason: claim.kind, disposition });
  if (disposition !== "returned") meters.disposition(disposition);
}

const PASSED = {
  duplicate: "duplicate",
  stale: "duplicate",
  cancelled: "cancelled",
  leased: "returned",
} as const;

async function setAside(
  delivery: Delivery,
  { id, problem }: Extract<Content, { kind: "invalid" }>,
  { clock, meters }: Route,
): Promise<void> {
  const settled = await delivery.settle(disposeInvalid(problem, clock.now()));
  if (!settled) return;
  const disposition = "failed";
  log.warning("invalid message set aside", { task_id: id, problem, disposition });
  meters.disposition(disposition);
}

async function exhaust(
  delivery: Delivery,
  task: Task,
  { clock, ledger, meters }: Route,
  cut: AbortSignal,
): Promise<void> {
  const { id, attempt, enqueuedAt, redriven } = task;
  const settlement = disposeExhausted(task, clock.now());
  const { failure: { lastStatus, lastError } } = settlement;
  const last = {
    ...(lastStatus !== undefined && { lastStatus }),
    ...(lastError !== undefined && { lastError }),
  };
  const settled = await delivery.settle(settlement, async () => {
    const conclusion = { kind: "failed" as const, last };
    const made = { id, attempt: attempt - 1, enqueuedAt, redriven, conclusion };
    await ledger?.conclude(made, cut);
  });
  if (!settled) return;
  const disposition = "failed";
  log.warning("attempt number beyond the ladder", { task_id: id, attempt, disposition });
  meters.disposition(disposition);
}
