/**
 * The relay is killed (-9) between each pair of steps on a task's way. Where it is killed is decided
 * by the frame that passes between it and the broker, so nothing here depends on luck.
 *
 *     post ─(1)─ publish ─(2)─ confirm ─(3)─ 202
 *     deliver ─(4)─ request ─(5)─ 200 ─(6)─ ack
 *     deliver ─ request ─ 500 ─(7)─ publish to the rung ─(8)─ confirm ─(9)─ ack
 *
 * A duplicate is allowed where the broker could not know that the task was done: at (2), (5), (6),
 * (8) and (9). Nowhere may a task get lost.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Answer } from "../support/backend.ts";
import { eventually } from "../support/eventually.ts";
import { publishesTask } from "../support/task_frames.ts";
import type { PassingFrame } from "../support/tcp_relay.ts";
import { PLAIN, type Scene, taskId, timesAsked, untilAllDelivered, withScene } from "./scene.ts";

type Where = (frame: PassingFrame) => boolean;

const confirm: Where = ({ name, direction }) => name === "basic.ack" && direction === "toClient";
const ack: Where = ({ name, direction }) => name === "basic.ack" && direction === "toServer";
const publish: Where = publishesTask;
const deliver: Where = ({ name }) => name === "basic.deliver";

/** Kills the relay when the first frame of that kind is about to pass; the frame is lost. */
function killBefore({ relay, network }: Scene, where: Where): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  network.onFrame = async (frame) => {
    if (!where(frame)) return "pass";
    network.onFrame = undefined;
    await relay.kill();
    resolve();
    return "cut-before";
  };
  return promise;
}

/** Posts until one is not answered, for the relay is killed; that one was not accepted. */
async function postIntoDeath({ relay }: Scene): Promise<void> {
  await assert.rejects(relay.post('{"unanswered":true}'));
}

/**
 * Starts the relay again, which is asked for three tasks more, and counts when `requests` came in
 * all: everything accepted was delivered, nothing is left, and no more than `most` requests came.
 */
async function recovers(scene: Scene, requests: number, most = requests): Promise<void> {
  await scene.relay.start();
  await scene.post(3);
  await scene.backend.waitFor(requests);
  await untilAllDelivered(scene);
  assert.equal(await scene.relay.stop(), 0);
  const { waiting, failed } = await scene.count();
  assert.deepEqual([...waiting], [], "something still waits");
  assert.deepEqual([...failed], [], "something failed");
  const came = scene.backend.requests.length;
  assert.ok(came <= most, `${came} requests, and at most ${most} are allowed`);
}

/** How many requests came for the only task of `ids`. */
function asked(scene: Scene, ids: readonly string[]): number {
  return timesAsked(scene.backend).get(ids[0] ?? "") ?? 0;
}

Deno.test("killed between a post and its publish: the client gets no answer, and the task was not taken", async () => {
  await withScene({ env: PLAIN }, async (scene) => {
    const killed = killBefore(scene, publish);
    await postIntoDeath(scene);
    await killed;
    await recovers(scene, 3);
    assert.deepEqual(new Set(timesAsked(scene.backend).values()), new Set([1]));
    assert.equal(scene.delivered.size, scene.accepted.size);
  });
});

Deno.test("killed between the publish of a post and its confirm: the client gets no answer, and what the broker took is delivered", async () => {
  await withScene({ env: PLAIN }, async (scene) => {
    const killed = killBefore(scene, confirm);
    await postIntoDeath(scene);
    await killed;
    await recovers(scene, 4, 5);
    // The broker had it. Consumer and publisher are two connections, so that the request may have
    // been made already when the confirm was due: a duplicate is allowed.
    assert.equal(scene.delivered.size, scene.accepted.size + 1);
  });
});

Deno.test("killed when a delivery is about to arrive: delivered once after the restart", async () => {
  await withScene({ env: PLAIN }, async (scene) => {
    const killed = killBefore(scene, deliver);
    const posting = scene.relay.post("1").then(({ json }) => [String(json["id"])], () => []);
    await killed;
    const ids = await posting;
    ids.forEach((id) => scene.accepted.add(id));
    await recovers(scene, 4);
    assert.deepEqual(new Set(timesAsked(scene.backend).values()), new Set([1]));
    assert.equal(scene.delivered.size, 4, "what was about to be delivered was not");
  });
});

Deno.test("killed while the backend works on a request: delivered again (a duplicate is allowed)", async () => {
  await withScene({ env: PLAIN }, async (scene) => {
    const { promise: killed, resolve } = Promise.withResolvers<void>();
    scene.answer = async (): Promise<Answer> => {
      scene.answer = (): Answer => ({ status: 200 });
      await scene.relay.kill();
      resolve();
      return { reset: true };
    };
    const posting = scene.relay.post("1").then(({ json }) =>
      scene.accepted.add(String(json["id"]))
    );
    await Promise.all([killed, posting.catch(() => {})]);
    await recovers(scene, 5);
    const first = taskId(scene.backend.requests[0]!);
    assert.equal(timesAsked(scene.backend).get(first), 2);
  });
});

Deno.test("killed after the backend's 200 and before the ack: delivered again with the same key (the one duplicate allowed)", async () => {
  await withScene({ env: PLAIN }, async (scene) => {
    const killed = killBefore(scene, ack);
    const ids = await scene.post(1);
    await killed;
    await recovers(scene, 5);
    assert.equal(asked(scene, ids), 2);
    const keys = scene.backend.requests.filter((request) => taskId(request) === ids[0])
      .map(({ headers }) => [headers["idempotency-key"], headers["task-attempt"]]);
    assert.deepEqual(keys, [[ids[0], "1"], [ids[0], "1"]]);
  });
});

/** A ladder whose first retry waits in a rung. */
const RUNG_FIRST = { env: { ...PLAIN, RETRY_LADDER: "1x0s,4x0.2s" } };

/** The first request of all is answered 503, the others 200. */
function failsOnce(scene: Scene): void {
  scene.answer = (_request, n): Answer => ({ status: n === 1 ? 503 : 200 });
}

/** Frames of the connection on which the next hop is published: not that of the post. */
function hop(where: Where, posted: number): Where {
  let seen = 0;
  return (frame) => where(frame) && ++seen > posted;
}

Deno.test("killed after a failed attempt and before the publish to its rung: the same attempt again", async () => {
  await withScene(RUNG_FIRST, async (scene) => {
    failsOnce(scene);
    const killed = killBefore(scene, hop(publish, 1));
    const ids = await scene.post(1);
    await killed;
    await recovers(scene, 5);
    assert.equal(asked(scene, ids), 2);
    const attempts = scene.backend.requests.filter((request) => taskId(request) === ids[0])
      .map(({ headers }) => headers["task-attempt"]);
    assert.deepEqual(attempts, ["1", "1"], "the attempt was not on record, so it is repeated");
  });
});

Deno.test("killed after the publish to the rung and before its confirm: both copies come (a duplicate is allowed), none is lost", async () => {
  await withScene(RUNG_FIRST, async (scene) => {
    failsOnce(scene);
    const killed = killBefore(scene, hop(confirm, 1));
    const ids = await scene.post(1);
    await killed;
    await recovers(scene, 6);
    assert.equal(asked(scene, ids), 3);
  });
});

Deno.test("killed after the rung's confirm and before the ack: both copies come (a duplicate is allowed), none is lost", async () => {
  await withScene(RUNG_FIRST, async (scene) => {
    failsOnce(scene);
    const killed = killBefore(scene, ack);
    const ids = await scene.post(1);
    await killed;
    await recovers(scene, 6);
    assert.equal(asked(scene, ids), 3);
  });
});

Deno.test("killed after the last attempt and before the confirm of the failed queue: it fails again, and lies there", async () => {
  await withScene({ env: { ...PLAIN, RETRY_LADDER: "1x0s" } }, async (scene) => {
    scene.answer = (): Answer => ({ status: 500 });
    const killed = killBefore(scene, hop(confirm, 1));
    const ids = await scene.post(1);
    await killed;
    await scene.relay.start();
    await eventually(() => assert.equal(asked(scene, ids), 2));
    await scene.relay.waitForLog(({ disposition }) => disposition === "failed");
    const { failed, messages } = await scene.count();
    assert.deepEqual([...failed], [[ids[0], "attempts_exhausted"]]);
    assert.equal(messages.length, 2, "one copy for each failure: a duplicate that is allowed");
  });
});
