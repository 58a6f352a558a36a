/**
 * Tests of the test support itself, only where a fault in it would make other tests pass or fail
 * for the wrong reason.
 *
 * @module
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { FrameSplitter } from "../support/amqp_frames.ts";
import { busiestWindow, perFixedWindow } from "../support/arrivals.ts";
import { eventually } from "../support/eventually.ts";
import { RequestReader } from "../support/http_reader.ts";

const ascii = new TextEncoder();

Deno.test("eventually: goes on once the assertion holds, and returns its value", async () => {
  let tries = 0;
  const value = await eventually(() => {
    if (++tries < 3) throw new Error("not yet");
    return tries;
  }, { every: 1 });
  assert.equal(value, 3);
});

Deno.test("eventually: an assertion that never holds fails with its own words and the time", async () => {
  await assert.rejects(
    eventually(() => assert.equal(1, 2, "one is not two"), { within: 30, every: 5 }),
    (error: Error) =>
      error instanceof assert.AssertionError &&
      /one is not two[^]*\(not true within \d+ ms\)/.test(error.message),
  );
});

Deno.test("eventually: an assertion that never settles fails in time", async () => {
  await assert.rejects(
    eventually(() => new Promise(() => {}), { within: 30 }),
    /the assertion never settled/,
  );
});

Deno.test("busiestWindow: arrivals exactly one window apart are not in the same window", () => {
  assert.equal(busiestWindow([], 3000), 0);
  assert.equal(busiestWindow([0, 3000], 3000), 1);
  assert.equal(busiestWindow([0, 2999.9], 3000), 2);
});

Deno.test("busiestWindow: finds a burst over the border of two fixed windows", () => {
  const burst = [...Array(10).fill(2900), ...Array(10).fill(3100)];
  assert.equal(busiestWindow(burst, 3000), 20);
  assert.deepEqual(perFixedWindow(burst, 3000, 0), [10, 10]);
});

Deno.test("busiestWindow: says what counting every window by hand says", () => {
  const times = fc.array(fc.nat(500), { maxLength: 60 }).map((list) => list.sort((a, b) => a - b));
  fc.assert(fc.property(times, fc.integer({ min: 1, max: 100 }), (list, windowMs) => {
    const counts = list.map((end) => list.filter((t) => t <= end && t > end - windowMs).length);
    assert.equal(busiestWindow(list, windowMs), Math.max(0, ...counts));
  }));
});

Deno.test("perFixedWindow: counts each arrival once and shows empty windows", () => {
  assert.deepEqual(perFixedWindow([], 10), []);
  assert.deepEqual(perFixedWindow([5, 6, 14.9, 15, 37], 10), [3, 1, 0, 1]);
});

Deno.test("RequestReader: gives the same requests however the bytes are cut", () => {
  const bytes = ascii.encode(
    "POST /a?b=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\n\r\n\r\n1" +
      "GET / HTTP/1.1\r\n\r\n" +
      "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
  );
  fc.assert(fc.property(fc.array(fc.nat(bytes.length)), (cuts) => {
    const reader = new RequestReader();
    const requests = pieces(bytes, cuts).flatMap((piece) => reader.push(piece));
    assert.deepEqual(
      requests.map(({ method, url, body }) => [method, url, new TextDecoder().decode(body)]),
      [["POST", "/a?b=1", "\r\n\r\n1"], ["GET", "/", ""], ["POST", "/c", "abc0123456789"]],
    );
    assert.equal(requests[0]?.headers["x-a"], "1, 2");
    assert.equal(reader.midRequest, false);
  }));
});

Deno.test("FrameSplitter: gives the same frames however the bytes are cut", () => {
  const ack = [1, 0, 2, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0xce];
  const body = [3, 0, 2, 0, 0, 0, 3, 0xce, 65, 0xce, 0xce];
  const heartbeat = [8, 0, 0, 0, 0, 0, 0, 0xce];
  const unknown = [1, 0, 1, 0, 0, 0, 4, 0, 90, 0, 10, 0xce];
  const greeting = [...ascii.encode("AMQP"), 0, 0, 9, 1];
  const bytes = new Uint8Array([...greeting, ...ack, ...body, ...heartbeat, ...unknown]);
  fc.assert(fc.property(fc.array(fc.nat(bytes.length)), (cuts) => {
    const splitter = new FrameSplitter();
    const frames = pieces(bytes, cuts).flatMap((piece) => splitter.push(piece));
    assert.deepEqual(
      frames.map(({ name, channel, bytes }) => [name, channel, bytes.length]),
      [
        ["protocol", 0, greeting.length],
        ["basic.ack", 2, ack.length],
        ["body", 2, body.length],
        ["heartbeat", 0, heartbeat.length],
        ["90.10", 1, unknown.length],
      ],
    );
    assert.deepEqual(frames.flatMap(({ bytes }) => [...bytes]), [...bytes]);
  }));
});

/** `bytes` cut at the places `cuts`. */
function pieces(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const borders = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
  return borders.slice(1).map((end, i) => bytes.subarray(borders[i], end));
}
