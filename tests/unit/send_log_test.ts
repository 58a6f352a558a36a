/**
 * The send log: what the next process reads of the one before it.
 *
 * @module
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { SendLog } from "../../src/consumer/send_log.ts";

const NAME = "tasks.sends";

async function withFolder(use: (folder: string) => void): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Opens the log, as a process that starts; leaves it to `use` and closes it. */
function withLog<T>(folder: string, capacity: number, use: (log: SendLog) => T): T {
  const log = new SendLog(folder, NAME, capacity);
  try {
    return use(log);
  } finally {
    log.close();
  }
}

function reread(folder: string, capacity: number): number[] {
  return withLog(folder, capacity, (log) => log.load());
}

Deno.test("a new data directory → made, and nothing on record", async () => {
  await withFolder((folder) => {
    const data = `${folder}/not/there/yet`;
    assert.deepEqual(reread(data, 3), []);
    assert.deepEqual(Deno.statSync(`${data}/${NAME}`).size, 3 * 8);
  });
});

Deno.test("a record is in the file when record() returns, without any close", async () => {
  await withFolder((folder) => {
    withLog(folder, 3, (log) => {
      log.record(1_700_000_000_000.5);
      assert.deepEqual(reread(folder, 3), [1_700_000_000_000.5]);
    });
  });
});

Deno.test("any number of sends, restarts and limits → the last sends in order, as many as ever fitted", async () => {
  const session = fc.record({
    capacity: fc.integer({ min: 1, max: 6 }),
    // Several sends in one millisecond are the rule; and now and then a clock is set back.
    steps: fc.array(fc.constantFrom(0, 0, 1, 1, 5, -3), { maxLength: 10 }),
  });
  await withFolder((folder) => {
    fc.assert(
      fc.property(fc.array(session, { minLength: 1, maxLength: 6 }), (sessions) => {
        let [room, kept, time] = [0, 0, 1_000];
        const sent: number[] = [];
        const last = (count: number): number[] => sent.slice(sent.length - count);
        for (const { capacity, steps } of sessions) {
          room = Math.max(room, capacity);
          withLog(folder, capacity, (log) => {
            assert.deepEqual(log.load(), last(kept));
            for (const step of steps) {
              time += step;
              log.record(time);
              sent.push(Math.max(time, sent.at(-1) ?? 0));
              kept = Math.min(kept + 1, room);
            }
            assert.deepEqual(log.load(), last(kept));
          });
        }
      }).afterEach(() => Deno.removeSync(`${folder}/${NAME}`)),
      { numRuns: 300 },
    );
  });
});

Deno.test("sends of one millisecond around the end of the ring → the oldest is overwritten next", async () => {
  await withFolder((folder) => {
    withLog(folder, 3, (log) => [100, 100, 200, 300, 300].forEach((at) => log.record(at)));
    withLog(folder, 3, (log) => {
      log.load();
      log.record(400);
    });
    assert.deepEqual(reread(folder, 3), [300, 300, 400]);
  });
});

Deno.test("the wall clock is set back → the last sends are still the ones on record", async () => {
  await withFolder((folder) => {
    withLog(folder, 3, (log) => [5_000, 4_000, 4_001].forEach((at) => log.record(at)));
    withLog(folder, 3, (log) => {
      log.load();
      log.record(4_002);
    });
    assert.equal(reread(folder, 3).length, 3);
  });
});

Deno.test("a file of something else → what can't be a time is not taken for one", async () => {
  await withFolder((folder) => {
    const bytes = new Uint8Array(new Float64Array([NaN, Infinity, -1, 0, 7]).buffer);
    Deno.writeFileSync(`${folder}/${NAME}`, new Uint8Array([...bytes, 1, 2, 3]));
    assert.deepEqual(reread(folder, 2), [7]);
  });
});

Deno.test("a place that can't be written → throws and says where", async () => {
  await withFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/file`, "");
    assert.throws(() => new SendLog(`${folder}/file`, NAME, 1), /file/);
  });
});
