/**
 * The client's trace context over a real relay: through RabbitMQ and its rungs to the backend.
 *
 * @module
 */
import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import { attemptLines, requestsOf, withStage } from "./stage.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CHILD_OF_TRACEPARENT = /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/;

Deno.test("a retried task: its attempts are one trace with a parent id each, and the log knows the trace", async () => {
  await withStage({ answer: () => ({ status: 500 }) }, async ({ relay, backend }) => {
    const id = await relay.accept("1", { traceparent: TRACEPARENT, tracestate: "vendor=1" });
    const odd = await relay.accept("2", { traceparent: "odd", tracestate: "vendor=1" });
    await backend.waitFor(4);
    await eventually(() => assert.equal(attemptLines(relay).length, 4));
    const sent = requestsOf(backend, id).map(({ headers }) => String(headers["traceparent"]));
    assert.ok(sent.every((traceparent) => CHILD_OF_TRACEPARENT.test(traceparent)), sent.join());
    assert.equal(new Set([TRACEPARENT, ...sent]).size, 3);
    assert.ok(requestsOf(backend, id).every(({ headers }) => headers["tracestate"] === "vendor=1"));
    const names = requestsOf(backend, odd).flatMap(({ headers }) => Object.keys(headers));
    assert.deepEqual(names.filter((name) => name.startsWith("trace")), []);
    const traces = attemptLines(relay, id).map(({ trace_id }) => trace_id);
    assert.deepEqual(traces, Array(2).fill("0af7651916cd43dd8448eb211c80319c"));
    assert.ok(attemptLines(relay, odd).every((line) => !("trace_id" in line)));
  });
});
