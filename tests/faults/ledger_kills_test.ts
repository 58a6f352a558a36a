/**
 * The relay is killed (-9) between the backend's 200 and the acknowledgement, again and again. One
 * case is left in which a task that was done is asked for again: the process died before it could
 * record the answer. What the ledger holds is read while no relay runs, so that each repeat can be
 * laid to that case, or not.
 *
 *     200 ──► recorded ──► ack ──► broker
 *      └ a repeat ┘└ none ┘
 */
import assert from "node:assert/strict";
import { alongside } from "../support/alongside.ts";
import { eventually } from "../support/eventually.ts";
import {
  assertOneKeyOneTask,
  type Exchange,
  keepExchanges,
  type Repeat,
  repeatsIn,
} from "../support/exchanges.ts";
import { type LedgerStage, type StoreKind, withLedgerStage } from "../support/ledger_stage.ts";
import { readAcknowledgements } from "../support/task_frames.ts";

/** With each store, by two relays side by side: each is dead or starts for most of its time. */
const KILLS = [13, 12];

const STORES = ["sqlite", "redis"] as const;

/** Tasks of one life, one after the other: at one of them the relay is killed, cold or warm. */
const MOST_TASKS = 10;

/** How long after a 200 the relay is killed, at most. */
const LATEST_KILL_MS = 30;

type When = "after a while" | "before the acknowledgement";

/** Kills the relay when one task was answered: some time after it, or where its ack would pass. */
class Killer {
  #key: string | undefined;
  #when: When = "after a while";
  #settling: string | undefined;
  #killed = Promise.withResolvers<string>();
  readonly #stage: LedgerStage;

  constructor(stage: LedgerStage) {
    this.#stage = stage;
    const acknowledged = readAcknowledgements();
    stage.network.onFrame = async (frame) => {
      const id = acknowledged(frame);
      if (id === undefined || id !== this.#settling) return "pass";
      await this.#kill(id);
      return "cut-before";
    };
  }

  /** Settles when the relay was killed, with the id of the task that was posted with `key`. */
  next(key: string, when: When): Promise<string> {
    this.#killed = Promise.withResolvers<string>();
    this.#key = key;
    this.#when = when;
    return this.#killed.promise;
  }

  /** The backend answers 200, at this moment. */
  answered({ id, key }: Exchange): void {
    if (key !== this.#key) return;
    this.#key = undefined;
    if (this.#when === "before the acknowledgement") this.#settling = id;
    else setTimeout(() => this.#kill(id), Math.random() * LATEST_KILL_MS);
  }

  async #kill(id: string): Promise<void> {
    this.#settling = undefined;
    await this.#stage.relay.kill();
    this.#killed.resolve(id);
  }
}

/** A relay that died, and what its ledger did not hold then although the backend had answered 2xx. */
interface Death {
  readonly at: number;
  readonly unrecorded: ReadonlySet<string>;
}

/** Posts tasks until the relay is killed; the ids by their keys, undefined where no answer came. */
async function postUntilKilled(
  { relay }: LedgerStage,
  life: number,
  killed: Promise<string>,
): Promise<Map<string, string | undefined>> {
  await eventually(async () => {
    const { json } = await relay.get("/readyz");
    assert.equal(json["consumer"], "consuming");
  });
  const ids = new Map<string, string | undefined>();
  let dead = false;
  void killed.then(() => dead = true);
  for (let n = 0; n < MOST_TASKS && !dead; n++) {
    const key = keyOf(life, n);
    const answer = await relay.post("1", { "idempotency-key": key }).catch(() => undefined);
    if (answer !== undefined) assert.equal(answer.status, 202, answer.text);
    ids.set(key, answer && String(answer.json["id"]));
  }
  return ids;
}

function keyOf(life: number, n: number): string {
  return `life-${life}-task-${n}`;
}

/** Posts a key again that was not answered, until it is accepted. */
async function postAgain({ relay }: LedgerStage, key: string): Promise<string> {
  return await eventually(async () => {
    const { status, json, text } = await relay.post("1", { "idempotency-key": key });
    assert.equal(status, 202, text);
    return String(json["id"]);
  }, { every: 500 });
}

/** Whether the process died between the backend's answer and the record of it. */
function isExcused({ done, again }: Repeat, deaths: readonly Death[]): boolean {
  return deaths.some(({ at, unrecorded }) =>
    at > done.answeredAt && at < again.askedAt && unrecorded.has(done.id)
  );
}

async function killAgainAndAgain(store: StoreKind, kills: number): Promise<void> {
  await withLedgerStage({ store }, async (stage) => {
    const killer = new Killer(stage);
    const exchanges = keepExchanges(
      stage.backend,
      () => 200,
      (exchange) => killer.answered(exchange),
    );
    const ids = new Map<string, string>();
    const unanswered: string[] = [];
    const deaths: Death[] = [];
    for (let life = 0; life < kills; life++) {
      const when = life % 3 === 2 ? "before the acknowledgement" : "after a while";
      const killed = killer.next(keyOf(life, Math.floor(Math.random() * MOST_TASKS)), when);
      for (const [key, id] of await postUntilKilled(stage, life, killed)) {
        if (id === undefined) unanswered.push(key);
        else ids.set(key, id);
      }
      const id = await killed;
      const at = performance.now();
      const done = new Set(exchanges.map((exchange) => exchange.id));
      const known = await stage.readLedger(done);
      const unrecorded = [...done].filter((id) => known.get(id)?.status !== "delivered");
      deaths.push({ at, unrecorded: new Set(unrecorded) });
      if (when === "before the acknowledgement") {
        assert.equal(known.get(id)?.status, "delivered", "acknowledged before it was recorded");
      }
      await stage.relay.start();
    }
    await Promise.all(unanswered.map(async (key) => ids.set(key, await postAgain(stage, key))));
    for (const id of ids.values()) await stage.untilStatus(id, "delivered");

    const unexcused = repeatsIn(exchanges).filter((repeat) => !isExcused(repeat, deaths));
    assert.deepEqual(unexcused, [], `with ${store}, asked again though the answer was on record`);
    assertOneKeyOneTask(exchanges, ids);
    const done = new Set(exchanges.map(({ id }) => id));
    assert.deepEqual([...done].toSorted(), [...ids.values()].toSorted());
    await stage.assertNothingLeft();
  });
}

Deno.test("relays are killed (-9) 25 times at random moments between the backend's 200 and the acknowledgement, with SQLite and with Redis: asked again only for what the ledger did not know, with the same key", async () => {
  const runs = STORES.flatMap((store) => KILLS.map((kills) => killAgainAndAgain(store, kills)));
  await alongside(...runs);
});
