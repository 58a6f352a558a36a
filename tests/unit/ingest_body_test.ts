/**
 * A body that comes in crumbs: read whole, and without keeping everybody else waiting.
 */
import assert from "node:assert/strict";
import { createBodyReader } from "../../src/http/body.ts";

const CRUMBS = 100_000;

Deno.test("a chunked body of 100,000 chunks of one byte → read whole, and others get their turn meanwhile", async () => {
  let sent = 0;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller): void {
      // As the server hands them over: a view of one byte on a buffer of its own.
      controller.enqueue(new Uint8Array([sent % 251]).subarray(0, 1));
      if (++sent === CRUMBS) controller.close();
    },
  });
  const bodies = createBodyReader({ maxBytes: CRUMBS, deadlineMs: 60_000 });
  let turns = 0;
  const others = setInterval(() => turns++, 0);
  try {
    const request = new Request("http://relay/", { method: "POST", body });
    const read = await bodies.read(request);
    assert.equal(read.kind, "bytes");
    const bytes = read.kind === "bytes" ? read.bytes : new Uint8Array();
    assert.equal(bytes.length, CRUMBS);
    assert.ok(bytes.every((byte, n) => byte === n % 251), "the bytes are not those that were sent");
    assert.ok(turns > 2, `others had ${turns} turns`);
  } finally {
    clearInterval(others);
    bodies.close();
  }
});
