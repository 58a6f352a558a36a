/**
 * Server-sent events: what each reader gets, and what a slow one costs.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Events, MOST_STREAMS } from "../../src/ops/events.ts";
import type { Stats, StatsSample } from "../../src/ops/stats.ts";
import { FakeClock, settled } from "../support/fake_clock.ts";

/** The events of a relay whose `uptimeSeconds` counts the looks. */
class EventsBench {
  readonly clock = new FakeClock();
  looks = 0;
  readonly events = new Events({
    look: () =>
      Promise.resolve({ uptimeSeconds: ++this.looks, history: "all" } as unknown as Stats),
    clock: this.clock,
  });

  async open(method = "GET"): Promise<Response> {
    return await this.events.open(new Request("http://localhost/events", { method }));
  }

  /** Opens a stream and reads it. */
  async read(): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const { body } = await this.open();
    assert.ok(body);
    return body.getReader();
  }
}

/** What was read next; undefined at the end of the stream. */
async function text(
  reading: Promise<ReadableStreamReadResult<Uint8Array>>,
): Promise<string | undefined> {
  const { value } = await reading;
  return value && new TextDecoder().decode(value);
}

function sample(accepted: number): StatsSample {
  return { accepted } as unknown as StatsSample;
}

Deno.test("a stream → everything at first, then each second without the history, and new samples", async () => {
  const bench = new EventsBench();
  const reader = await bench.read();
  assert.equal(
    await text(reader.read()),
    'retry: 2000\n\nevent: stats\ndata: {"uptimeSeconds":1,"history":"all"}\n\n',
  );
  const next = reader.read();
  await bench.clock.advance(1_000);
  assert.equal(await text(next), 'event: stats\ndata: {"uptimeSeconds":2}\n\n');
  bench.events.sample(sample(3));
  assert.equal(await text(reader.read()), 'event: sample\ndata: {"accepted":3}\n\n');
  await reader.cancel();
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("a reader that was slow → gets the first and the newest of what it missed", async () => {
  const bench = new EventsBench();
  const reader = await bench.read();
  for (let second = 0; second < 30; second++) {
    await bench.clock.advance(1_000);
    bench.events.sample(sample(second));
  }
  const read = await text(reader.read());
  assert.deepEqual(read?.match(/data: .*/g), [
    'data: {"uptimeSeconds":1,"history":"all"}',
    'data: {"uptimeSeconds":31}',
    'data: {"accepted":29}',
  ]);
  await reader.cancel();
});

Deno.test("a reader that reads nothing for a minute → is given up", async () => {
  const bench = new EventsBench();
  const reader = await bench.read();
  await bench.clock.advance(60_000);
  assert.equal(bench.clock.sleeping, 1);
  await bench.clock.advance(2_000);
  assert.equal(bench.clock.sleeping, 0);
  assert.equal((await reader.read()).done, true);
});

Deno.test("the relay can't be looked at → no place is taken", async () => {
  const look = (): Promise<Stats> => Promise.reject(new Error("a bug"));
  const events = new Events({ look, clock: new FakeClock() });
  for (let n = 0; n <= MOST_STREAMS; n++) {
    await assert.rejects(events.open(new Request("http://localhost/events")), /a bug/);
  }
});

Deno.test("many streams → one look a second for all; nobody listens → none, and no timer", async () => {
  const bench = new EventsBench();
  const readers = await Promise.all(Array.from({ length: 5 }, () => bench.read()));
  assert.equal(bench.clock.sleeping, 1);
  const before = bench.looks;
  await bench.clock.advance(3_000);
  assert.equal(bench.looks, before + 3);
  for (const reader of readers) await reader.cancel();
  assert.equal(bench.clock.sleeping, 0);
  await bench.clock.advance(3_000);
  assert.equal(bench.looks, before + 3);
  const again = await bench.read();
  assert.equal(bench.clock.sleeping, 1);
  await again.cancel();
});

Deno.test("more streams than may be open → 503; when one has ended there is room", async () => {
  const bench = new EventsBench();
  const responses = await Promise.all(Array.from({ length: MOST_STREAMS }, () => bench.open()));
  const refused = await bench.open();
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [503, "5"]);
  await responses[0]?.body?.cancel();
  const response = await bench.open();
  assert.equal(response.status, 200);
  bench.events.close();
});

Deno.test("close → every stream ends, and no timer is left", async () => {
  const bench = new EventsBench();
  const reader = await bench.read();
  await reader.read();
  const next = reader.read();
  bench.events.close();
  assert.equal((await next).done, true);
  await settled();
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("close while a stream is being opened → no timer is left", async () => {
  const bench = new EventsBench();
  const opening = bench.open();
  bench.events.close();
  assert.equal(await (await opening).text(), "");
  assert.equal(bench.clock.sleeping, 0);
});

Deno.test("HEAD → the headers, and no stream", async () => {
  const bench = new EventsBench();
  const response = await bench.open("HEAD");
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  assert.equal(response.body, null);
  assert.deepEqual([bench.clock.sleeping, bench.looks], [0, 0]);
});
