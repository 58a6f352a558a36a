/**
 * Operators that send failed tasks again, at once or one after the other, and relays that die between
 * any two steps of that. What each step is worth is told in `src/ledger/redrive.ts`.
 *
 * @module
 */
import assert from "node:assert/strict";
import { confirmRedrive, redrive } from "../../../src/ledger/redrive.ts";
import { type Action, type Copy, type LedgerState, PROGRESS, TROUBLE } from "./state.ts";

/** So that a world comes to an end. */
const MOST_REDRIVEN = 3;

/** A redrive of one message of the failed queue, which it holds. */
interface Redriving {
  readonly failed: Copy;
  step: "taken" | "granted" | "published" | "over";
}

/** The operators; see above. */
export class Operators {
  readonly #state: LedgerState;
  #redrivings: Redriving[] = [];

  constructor(state: LedgerState) {
    this.#state = state;
  }

  possible(): Action[] {
    const free = this.#state.failed.filter(({ held, redriven }) =>
      !held && redriven < MOST_REDRIVEN
    );
    return [
      ...free.map((failed): Action => [PROGRESS / 3, () => this.#take(failed)]),
      ...this.#redrivings.flatMap((redriving) => this.#stepsOf(redriving)),
    ];
  }

  /** What was held goes back to the failed queue. */
  die(): void {
    for (const redriving of this.#redrivings) this.#drop(redriving);
  }

  /** Sends everything again that may be; nothing dies. */
  redriveAll(): void {
    for (const failed of [...this.#state.failed]) {
      const redriving = this.#take(failed);
      this.#ask(redriving);
      if (redriving.step === "granted") this.#publish(redriving);
      if (redriving.step === "published") this.#confirm(redriving);
      if (redriving.step === "over") this.#acknowledge(redriving);
    }
  }

  #stepsOf(redriving: Redriving): Action[] {
    const die: Action = [TROUBLE, () => this.#drop(redriving)];
    switch (redriving.step) {
      case "taken":
        return [die, [PROGRESS, () => this.#ask(redriving)]];
      case "granted": {
        // The broker has it, and the relay does not come to know.
        const unknown = (): void => {
          this.#publish(redriving);
          this.#drop(redriving);
        };
        return [die, [TROUBLE, unknown], [PROGRESS, () => this.#publish(redriving)]];
      }
      case "published":
        return [die, [PROGRESS, () => this.#confirm(redriving)]];
      case "over":
        return [die, [PROGRESS, () => this.#acknowledge(redriving)]];
    }
  }

  #take(failed: Copy): Redriving {
    failed.held = true;
    const redriving: Redriving = { failed, step: "taken" };
    this.#redrivings.push(redriving);
    return redriving;
  }

  #ask(redriving: Redriving): void {
    const { id, redriven } = redriving.failed;
    const state = this.#state;
    const request = { id, redriven, enqueuedAt: state.now, deadLettered: false };
    const answer = state.apply(id, (record) => redrive(record, request, state.now));
    switch (answer.kind) {
      case "granted":
        assert.ok(!state.delivered, "sent again although its delivery was concluded");
        assert.ok(!state.droppedAsCancelled, "sent again although it was cancelled");
        assert.equal(answer.redriven, redriven + 1);
        redriving.step = "granted";
        break;
      case "superseded": {
        const later = [...state.copies, ...state.failed].some((copy) => copy.redriven > redriven);
        assert.ok(later || state.delivered || state.cancelled, "superseded by nothing");
        redriving.step = "over";
        break;
      }
      case "under-way":
        this.#drop(redriving);
    }
  }

  #publish(redriving: Redriving): void {
    const { id, redriven } = redriving.failed;
    this.#state.copies.push({ id, redriven: redriven + 1, attempt: 1, held: false });
    redriving.step = "published";
  }

  #confirm(redriving: Redriving): void {
    const { id, redriven } = redriving.failed;
    this.#state.apply(id, (record) => confirmRedrive(record, redriven + 1));
    redriving.step = "over";
  }

  #acknowledge(redriving: Redriving): void {
    const state = this.#state;
    state.failed = state.failed.filter((copy) => copy !== redriving.failed);
    this.#drop(redriving);
  }

  #drop(redriving: Redriving): void {
    redriving.failed.held = false;
    this.#redrivings = this.#redrivings.filter((other) => other !== redriving);
  }
}
