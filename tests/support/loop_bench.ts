/**
 * A loop between a broker and a backend that a test plays, with a clock that it turns.
 *
 * @module
 */

import assert from "node:assert/strict";
import { parseLadder } from "../../src/config.ts";
import type { Config } from "../../src/config.ts";
import { LONGEST_WAITS } from "../../src/consumer/hold.ts";
import { Limiter } from "../../src/consumer/limiter.ts";
import { Loop } from "../../src/consumer/loop.ts";
import { Meters } from "../../src/consumer/meters.ts";
import type { Answer } from "../../src/consumer/outcome.ts";
import type { Settlement } from "../../src/consumer/ports.ts";
import { createRateWindow } from "../../src/consumer/rate_window.ts";
import type { Task } from "../../src/task.ts";
import { FakeClock, settled } from "./fake_clock.ts";
import { fakeDelivery, FakeSubscription } from "./fake_deliveries.ts";
import { aGate, STEADY } from "./limiter_world.ts";
import type { DeliveryOptions, FakeDelivery } from "./fake_deliveries.ts";

/** A limit that is not the point. */
export const WIDE: Config["limit"] = {
  maxRequests: 1_000,
  windowMs: 1_000,
  algorithm: "fixed-window",
};
/** The backend took the task. */
export const OK: Answer = { kind: "status", status: 200, text: "" };
const REFUSED: Answer = { kind: "failure", outcome: "refused", error: "nobody listens" };
/** An attempt that failed. */
export const ENDED: Answer = { kind: "failure", outcome: "reset", error: "ended" };

const LADDER = "1x0s,1x3s";

/** A loop with everything around it, and what happened in it. */
export class LoopBench {
  readonly clock = new FakeClock();
  readonly meters = new Meters(parseLadder(LADDER));
  readonly loop: Loop;
  readonly subscription = new FakeSubscription();
  /** What happened, in order: `take-over t1`, `begin t1`, `suspend`, `resume`. */
  readonly events: string[] = [];
  readonly deliveries: FakeDelivery[] = [];
  /** False: the backend refuses connections, so that no request begins. */
  connects = true;
  /** What a look at the pause finds. */
  paused = false;
  readonly #inFlight = new Map<string, (answer: Answer) => void>();

  constructor(limit: Config["limit"] = WIDE, concurrency = 10, breakerFailures = 0) {
    const { clock, events } = this;
    const window = createRateWindow(limit, [], clock.monotonic());
    this.loop = new Loop({
      route: {
        limiter: new Limiter({
          window,
          gate: aGate({ limit, breakerFailures }, clock),
          sends: { record: () => {} },
          pulse: STEADY,
          longest: LONGEST_WAITS,
          clock,
        }),
        backend: { send: (task, begin, signal) => this.#send(task, begin, signal) },
        rules: {
          ladder: parseLadder(LADDER),
          permanentStatuses: [],
          queues: { prefix: "tasks", type: "quorum", singleActiveConsumer: true },
        },
        meters: this.meters,
        clock,
      },
      source: { suspend: () => events.push("suspend"), resume: () => events.push("resume") },
      concurrency,
      look: () => Promise.resolve(this.paused),
      takeOver: ({ content }) =>
        events.push(`take-over ${content.kind === "task" ? content.task.id : content.id}`),
    });
  }

  /** Ids of the tasks whose requests are under way. */
  get inFlight(): string[] {
    return [...this.#inFlight.keys()];
  }

  /** Delivers the task `id`. */
  async deliver(id: string, options: Partial<DeliveryOptions> = {}): Promise<FakeDelivery> {
    const delivery = fakeDelivery(id, { subscription: this.subscription, ...options });
    this.deliveries.push(delivery);
    this.loop.accept(delivery);
    await settled();
    return delivery;
  }

  /** The backend answers the task `id`. */
  async answer(id: string, answer: Answer = OK): Promise<void> {
    const settle = this.#inFlight.get(id);
    assert.ok(settle !== undefined, `${id} is not in flight`);
    settle(answer);
    await settled();
  }

  /** Where the deliveries went, in the order in which they came. */
  places(): string[] {
    return this.deliveries.map(({ settlements }) => settlements.map(place).join(", "));
  }

  #send(task: Task, begin: () => boolean, signal: AbortSignal): Promise<Answer | undefined> {
    if (!this.connects) return Promise.resolve(REFUSED);
    if (!begin()) return Promise.resolve(undefined);
    this.events.push(`begin ${task.id}`);
    return new Promise((resolve) => {
      const settle = (answer: Answer): void => {
        this.#inFlight.delete(task.id);
        resolve(answer);
      };
      this.#inFlight.set(task.id, settle);
      signal.addEventListener("abort", () => settle(ENDED));
    });
  }
}

function place(settlement: Settlement): string {
  switch (settlement.to) {
    case "delay":
      return `delay ${settlement.delayMs}`;
    case "rung":
      return `rung ${settlement.delayMs}`;
    case "later":
      return `later ${settlement.delayMs}`;
    case "failed":
      return `failed: ${settlement.failure.reason}`;
    case "done":
    case "front":
      return settlement.to;
  }
}

/** Delivers t1, t2 and so on. */
export async function fill(bench: LoopBench, count: number): Promise<void> {
  for (let n = 1; n <= count; n++) await bench.deliver(`t${n}`);
}
