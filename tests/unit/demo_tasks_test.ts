/**
 * The demo's judgement of itself: an exit status of 0 is worth something only if it would be 1 when
 * a task is lost or ends elsewhere.
 *
 * @module
 */
import assert from "node:assert/strict";
import { DemoTasks, differences, type Ending, endingsTable } from "../support/demo_tasks.ts";
import { answerTo } from "../support/sample_backend.ts";

const TASKS = new DemoTasks().first();
const AS_EXPECTED = new Map<string, Ending>(TASKS.map(({ name, expected }) => [name, expected]));

Deno.test("demo: tasks that ended as expected differ in nothing", () => {
  assert.equal(AS_EXPECTED.size, 25);
  assert.deepEqual(differences(TASKS, AS_EXPECTED), []);
  const table = endingsTable(TASKS, AS_EXPECTED).map(({ expected, seen }) => [expected, seen]);
  assert.deepEqual(table, [[15, 15], [4, 4], [3, 3], [3, 3], [0, 0]]);
});

Deno.test("demo: a lost task, a task elsewhere and an attempt too many are told", () => {
  const [lost, elsewhere, repeated] = TASKS.filter(({ payload }) => payload["demo"] === "ok");
  assert.ok(lost && elsewhere && repeated);
  const seen = new Map(AS_EXPECTED);
  seen.delete(lost.name);
  seen.set(elsewhere.name, { end: "permanent_status", attempts: 1 });
  seen.set(repeated.name, { end: "delivered", attempts: 2 });
  assert.deepEqual(
    differences(TASKS, seen).sort(),
    [
      `${lost.name}: expected delivered after 1 attempt, but it is lost`,
      `${elsewhere.name}: expected delivered after 1 attempt, but permanent status after 1 attempt`,
      `${repeated.name}: expected delivered after 1 attempt, but delivered after 2 attempts`,
    ].sort(),
  );
  const table = endingsTable(TASKS, seen).map(({ expected, seen }) => [expected, seen]);
  assert.deepEqual(table, [[15, 12], [4, 5], [3, 3], [3, 4], [0, 1]]);
});

Deno.test("demo: what is expected of each task follows from the sample backend's answers", () => {
  for (const { name, payload, expected } of TASKS) {
    const statuses = [1, 2, 3, 4, 5, 6].map((attempt) => answerTo(payload, attempt).status);
    const decided = statuses.findIndex((status) => status === 200 || status === 422);
    const attempts = decided === -1 ? statuses.length : decided + 1;
    const end = { 200: "delivered", 422: "permanent_status" }[String(statuses[decided])];
    assert.deepEqual({ end: end ?? "attempts_exhausted", attempts }, expected, name);
  }
});
