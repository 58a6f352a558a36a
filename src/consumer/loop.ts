/**
 * The loop of the consumer: starts deliveries, as many at once as CONCURRENCY allows, and gives back
 * what can't be begun.
 *
 *     delivered ──► waiting room ──► in flight (limiter, backend) ──► settled
 *                        │
 *                        └── no slot for minutes, or paused: all that is held goes back
 *
 * @module
 */

import { getLogger } from "@logtape/logtape";
import type { Task } from "../task.ts";
import type { HeldStanding } from "../consumer_report.ts";
import { deliver } from "./deliver.ts";
import type { Route } from "./deliver.ts";
import { DueTimes } from "./due_times.ts";
import type { Delivery, Subscription, TaskSource } from "./ports.ts";
import { dueAt } from "./report.ts";
import { SUSPECT_WAITS_MS, WaitingRoom } from "./waiting_room.ts";
import type { Pick } from "./waiting_room.ts";

const log = getLogger(["relay", "consumer"]);

/** For how long the consumer is suspended when that hangs on the answer to one request. */
const PROBE_WAIT_MS = 5_000;

/** After this long comes back what was given back because of a pause, if that is over. */
const PAUSED_RETURN_MS = 1_000;

/** What the loop works with. */
export interface LoopOptions {
  readonly route: Route;
  readonly source: TaskSource;
  /** Requests in flight at once, at most. */
  readonly concurrency: number;
  /**
   * Looks whether delivering is paused at this moment. Asked at the start of each subscription: when
   * another relay pauses and lets the queue go, the broker makes this one active at once.
   */
  readonly look: () => Promise<boolean>;
  /** Called with the first delivery of each subscription, before anything of it is begun. */
  readonly takeOver: (first: Delivery) => void;
}

/** Handles deliveries until it is stopped. */
export class Loop {
  readonly #options: LoopOptions;
  readonly #waiting = new WaitingRoom();
  readonly #inFlight = new Set<Promise<void>>();
  /** What goes back without having begun. */
  readonly #returning = new Set<Promise<unknown>>();
  readonly #due = new DueTimes();
  readonly #stopping = new AbortController();
  readonly #cut = new AbortController();
  #subscription: Subscription | undefined;
  /** Ends the waiting for slots of the current subscription's deliveries. */
  #waitingEnds: AbortSignal = this.#stopping.signal;
  /** While stopping, what is given back before this would be delivered here again. */
  #consumingEnds: Promise<void> | undefined;
  #suspended = false;
  #paused = false;
  /** Whether it is not known yet for this subscription. */
  #looking = false;
  /** Aborts when a pause begins. */
  #pauseBegins = new AbortController();
  #alone = false;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  /** Takes a delivery on. */
  accept(delivery: Delivery): void {
    if (delivery.subscription !== this.#subscription) this.#begin(delivery);
    const { clock } = this.#options.route;
    this.#noteDue(delivery);
    const suspect = this.#waiting.add(delivery, clock.monotonic());
    if (suspect) clock.sleep(SUSPECT_WAITS_MS, this.#stopping.signal).then(() => this.#pump());
    if (this.#stopping.signal.aborted || this.#isHalted) this.#clear();
    else this.#pump();
  }

  /** Begins nothing more until it is called with false. What is in flight ends, the rest goes back. */
  setPaused(paused: boolean): void {
    if (paused === this.#paused) return;
    this.#paused = paused;
    log.info(paused ? "consumer paused" : "consumer resumed");
    if (paused) {
      this.#pauseBegins.abort();
      this.#options.source.suspend();
      this.#clear();
    } else {
      this.#pauseBegins = new AbortController();
      void this.#goOn();
    }
  }

  /**
   * Begins nothing more, from this moment; waits up to `graceMs` for what has begun, then cuts it
   * off, and the broker delivers it again.
   *
   * @param consumingEnds settles when no more deliveries come; what has not begun goes back then.
   */
  async stop(graceMs: number, consumingEnds: Promise<void> = Promise.resolve()): Promise<void> {
    this.#consumingEnds = consumingEnds;
    this.#stopping.abort();
    this.#clear();
    const over = new AbortController();
    const grace = this.#options.route.clock.sleep(graceMs, over.signal);
    await Promise.race([this.settled(), grace]);
    over.abort();
    this.#cut.abort();
    await consumingEnds;
  }

  /**
   * Settles when nothing is handled any more. After {@link stop} that may need the closing of the
   * source: a next hop that the broker does not take is tried as long as its delivery lives.
   */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#inFlight, ...this.#returning]);
  }

  /** What is held, and since when its oldest has been due. */
  standing(): HeldStanding {
    const now = this.#options.route.clock.now();
    return {
      held: this.#waiting.size + this.#inFlight.size,
      dueSince: this.#due.oldest(now),
      dueSinceBefore: this.#due.oldestBefore(now),
    };
  }

  #noteDue(delivery: Delivery): void {
    const { content } = delivery;
    if (content.kind === "invalid") return;
    const { rules, clock } = this.#options.route;
    const { task } = content;
    // When a task that was sent again became due is not on record: not later than now.
    const isAgain = task.attempt === 1 && task.redriven !== undefined;
    this.#due.add(delivery, isAgain ? clock.now() : dueAt(task, rules.ladder));
  }

  #begin(first: Delivery): void {
    this.#due.beginAnew();
    this.#subscription = first.subscription;
    const ends = [this.#stopping.signal, first.subscription.lost, this.#pauseBegins.signal];
    this.#waitingEnds = AbortSignal.any(ends);
    this.#options.takeOver(first);
    this.#looking = true;
    void this.#look(first.subscription);
  }

  async #look(subscription: Subscription): Promise<void> {
    const paused = await this.#options.look();
    if (subscription !== this.#subscription) return;
    this.#looking = false;
    this.setPaused(paused);
    this.#pump();
  }

  #pump(): void {
    const { route, concurrency } = this.#options;
    while (!this.#alone && !this.#isHalted && !this.#looking && this.#inFlight.size < concurrency) {
      const idle = this.#inFlight.size === 0;
      const picked = this.#waiting.pick(route.clock.monotonic(), idle, Math.random());
      if (picked === undefined) return;
      if (picked.delivery.subscription.lost.aborted) continue;
      this.#start(picked);
    }
  }

  #start({ delivery, alone, since }: Pick): void {
    this.#alone = alone;
    const handled = deliver(delivery, this.#options.route, {
      since,
      waiting: this.#waitingEnds,
      inFlight: this.#cut.signal,
      giveBack: (task) => this.#giveBack(delivery, task),
      began: () => this.#due.remove(delivery),
    });
    this.#inFlight.add(handled);
    // No catch: what throws here is a bug, and the end of the Worker brings the message back.
    handled.then(() => {
      this.#inFlight.delete(handled);
      this.#due.remove(delivery);
      if (alone) this.#alone = false;
      this.#pump();
    });
  }

  async #giveBack(delivery: Delivery, task: Task): Promise<void> {
    this.#due.giveBack(delivery);
    if (this.#consumingEnds) await this.#consumingEnds;
    if (this.#stopping.signal.aborted || delivery.subscription.lost.aborted) {
      await delivery.settle({ to: "front" });
      return;
    }
    // What arrives when its pause is over already is of the subscription that the pause has ended.
    const pausedMeanwhile = this.#paused || this.#waitingEnds.aborted;
    const delayMs = pausedMeanwhile ? PAUSED_RETURN_MS : this.#untilFree();
    if (!pausedMeanwhile) this.#suspend(delayMs);
    await delivery.settle({ to: "later", task, delayMs });
  }

  #suspend(delayMs: number): void {
    if (this.#suspended) return;
    this.#suspended = true;
    const { source, route } = this.#options;
    log.info("consumer suspended: no slot for long", { resumes_in_ms: delayMs });
    source.suspend();
    this.#clear();
    route.clock.sleep(delayMs, this.#stopping.signal).then(() => {
      this.#suspended = false;
      void this.#goOn();
    });
  }

  get #isHalted(): boolean {
    return this.#suspended || this.#paused;
  }

  /** Consumes again, unless there is another reason not to. */
  async #goOn(): Promise<void> {
    // The next subscription closes the channel of the last, on which these are acknowledged.
    await this.settled();
    if (!this.#isHalted && !this.#stopping.signal.aborted) this.#options.source.resume();
  }

  #untilFree(): number {
    const { limiter, clock } = this.#options.route;
    const freeAt = limiter.freeAt();
    return freeAt === Infinity ? PROBE_WAIT_MS : Math.ceil(freeAt - clock.monotonic());
  }

  /** Gives back everything that waits. */
  #clear(): void {
    for (const delivery of this.#waiting.clear()) {
      const { content } = delivery;
      const returned = content.kind === "task"
        ? this.#giveBack(delivery, content.task)
        : delivery.settle({ to: "front" });
      this.#returning.add(returned);
      returned.then(() => this.#returning.delete(returned));
    }
  }
}
