/**
 * The connection to the broker is cut between the backend's 200 and the acknowledgement, again and
 * again. The broker must deliver the task once more, for it can't know; the ledger knows.
 *
 *     200 ──► recorded ──► ack ──► broker
 *         └── cut at a random moment ──┘     at the latest where the acknowledgement would pass
 */
import assert from "node:assert/strict";
import { alongside } from "../support/alongside.ts";
import { eventually } from "../support/eventually.ts";
import { assertOneKeyOneTask, keepExchanges, repeatsIn } from "../support/exchanges.ts";
import { type LedgerStage, type StoreKind, withLedgerStage } from "../support/ledger_stage.ts";
import { type AcknowledgementReader, readAcknowledgements } from "../support/task_frames.ts";

/** How long after the 200 a cut may come: about as long as the way to the acknowledgement takes. */
const LATEST_CUT_MS = 5;

/**
 * Of one relay in a row, by four relays with SQLite and one with Redis: each waits for most of its
 * time before it connects again. Fewer than 100, for at so many returns the broker gives a task up.
 */
const CUTS = 50;
const RELAYS = ["sqlite", "sqlite", "sqlite", "sqlite", "redis"] as const;

/** A stranger to the cuts: its first attempt fails, so that cuts meet tasks on all their ways. */
const FAILS_FIRST = /^by-\d*[02468]$/;

/** Cuts each victim's delivery between its 200 and its acknowledgement; counts the cuts. */
class Cutter {
  cuts = 0;
  /** The key of the task whose connection is cut next. */
  victim = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #answered: string | undefined;
  readonly #network: LedgerStage["network"];

  constructor(network: LedgerStage["network"], acknowledged: AcknowledgementReader) {
    this.#network = network;
    network.onFrame = (frame) => {
      const id = acknowledged(frame);
      if (id === undefined || id !== this.#answered) return "pass";
      this.#done();
      return "cut-before";
    };
  }

  /** The backend answers 200, at this moment. */
  answered({ id, key }: { readonly id: string; readonly key: string }): void {
    if (key !== this.victim) return;
    this.victim = "";
    this.#answered = id;
    this.#timer = setTimeout(() => {
      this.#done();
      this.#network.cut();
    }, Math.random() * LATEST_CUT_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#network.onFrame = undefined;
  }

  #done(): void {
    clearTimeout(this.#timer);
    this.#answered = undefined;
    this.cuts++;
  }
}

/** Posts until it is accepted: the relay's own connection to the broker is cut, too. */
async function accepted({ relay }: LedgerStage, key: string): Promise<string> {
  return await eventually(async () => {
    const { status, json, text } = await relay.post("1", { "idempotency-key": key });
    assert.equal(status, 202, text);
    return String(json["id"]);
  });
}

async function cutAgainAndAgain(store: StoreKind): Promise<void> {
  await withLedgerStage({ store }, async (stage) => {
    const { relay, backend, network } = stage;
    const { pid } = relay;
    const cutter = new Cutter(network, readAcknowledgements());
    const exchanges = keepExchanges(
      backend,
      ({ key, attempt }) => attempt === 1 && FAILS_FIRST.test(key) ? 503 : 200,
      (exchange) => exchange.status === 200 && cutter.answered(exchange),
    );
    const ids = new Map<string, string>();
    const post = async (key: string): Promise<void> =>
      void ids.set(key, await accepted(stage, key));
    for (let round = 1; round <= CUTS; round++) {
      cutter.victim = `cut-${round}`;
      await Promise.all([post(cutter.victim), post(`by-${round}`)]);
      await eventually(() => assert.equal(cutter.cuts, round), { every: 2 });
    }
    for (const id of ids.values()) await stage.untilStatus(id, "delivered");
    cutter.close();
    for (let round = 1; round <= CUTS; round++) {
      const id = ids.get(`cut-${round}`) ?? "";
      await eventually(() => {
        assert.ok(
          stage.passed(id).some(({ reason }) => reason === "duplicate"),
          "no second delivery",
        );
      });
    }
    assert.deepEqual(repeatsIn(exchanges), []);
    const done = exchanges.filter(({ status }) => status === 200).map(({ id }) => id);
    assert.deepEqual(done.toSorted(), [...ids.values()].toSorted());
    assertOneKeyOneTask(exchanges, ids);
    assert.equal(relay.pid, pid);
    assert.deepEqual(relay.logs.filter(({ message }) => message.includes("died")), []);
    await stage.assertNothingLeft();
  });
}

Deno.test("connections are cut between the backend's 200 and the acknowledgement, 200 times at random moments with SQLite and 50 with Redis: the backend sees each completed task once", async () => {
  await alongside(...RELAYS.map(cutAgainAndAgain));
});
