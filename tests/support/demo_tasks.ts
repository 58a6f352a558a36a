/**
 * The tasks of `deno task demo`, each with what must become of it, and the comparison with what did.
 *
 * @module
 */

/** Two attempts at once, two after 1 s, two after 2 s: the whole way down takes about 6 s. */
export const DEMO_LADDER = "2x0s,2x1s,2x2s";
const MAX_ATTEMPTS = 6;

/** How a task ends. */
export interface Ending {
  /** `delivered`, or the reason for which it lies in the failed queue. */
  readonly end: "delivered" | "attempts_exhausted" | "permanent_status";
  readonly attempts: number;
}

/** A task of the demo. */
export interface DemoTask {
  /** For people; it is in the payload too. */
  readonly name: string;
  /** What the sample backend looks at. */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly expected: Ending;
}

/** Makes tasks with names of their own. */
export class DemoTasks {
  #made = 0;

  /** 25 tasks: 15 that are taken at once, 4 that need retries, 3 without hope, 3 invalid. */
  first(): DemoTask[] {
    const kinds = [...Array<Kind>(15).fill({ demo: "ok" }), ...FLAKY, ...BROKEN, ...INVALID];
    // Seven and 25 have no common divisor: each kind comes once, and they come mixed.
    return kinds.map((_, i) => this.#make(kinds[(i * 7) % kinds.length] ?? { demo: "ok" }));
  }

  /** A few tasks more, of another kind each time. */
  more(): DemoTask[] {
    const special = [...FLAKY, ...BROKEN, ...INVALID];
    const kind = special[(this.#made * 3) % special.length] ?? { demo: "ok" };
    return [this.#make({ demo: "ok" }), this.#make({ demo: "ok" }), this.#make(kind)];
  }

  #make(kind: Kind): DemoTask {
    const name = `${NAMES[kind.demo]} ${++this.#made}`;
    return { name, payload: { task: name, ...kind }, expected: expectedOf(kind) };
  }
}

type Kind =
  | { readonly demo: "ok" | "broken" | "invalid" }
  | { readonly demo: "flaky"; readonly failures: number };

const FLAKY: readonly Kind[] = [1, 2, 3, 5].map((failures) => ({ demo: "flaky", failures }));
const BROKEN: readonly Kind[] = Array<Kind>(3).fill({ demo: "broken" });
const INVALID: readonly Kind[] = Array<Kind>(3).fill({ demo: "invalid" });

const NAMES = {
  ok: "welcome mail",
  flaky: "flaky invoice",
  broken: "broken report",
  invalid: "invalid order",
} as const;

function expectedOf(kind: Kind): Ending {
  switch (kind.demo) {
    case "ok":
      return { end: "delivered", attempts: 1 };
    case "flaky":
      return { end: "delivered", attempts: kind.failures + 1 };
    case "broken":
      return { end: "attempts_exhausted", attempts: MAX_ATTEMPTS };
    case "invalid":
      return { end: "permanent_status", attempts: 1 };
  }
}

/** One line of the closing table. */
export interface TableRow {
  readonly label: string;
  readonly expected: number;
  readonly seen: number;
}

/** The closing table: how many tasks should have ended in each way, and how many did. */
export function endingsTable(
  tasks: readonly DemoTask[],
  seen: ReadonlyMap<string, Ending>,
): TableRow[] {
  const rows = ROWS.map(({ label, covers }) => ({
    label,
    expected: tasks.filter(({ expected }) => covers(expected)).length,
    seen: [...seen.values()].filter(covers).length,
  }));
  const lost = tasks.length - seen.size;
  return [...rows, { label: "nowhere to be found", expected: 0, seen: lost }];
}

const ROWS: readonly { readonly label: string; readonly covers: (ending: Ending) => boolean }[] = [
  {
    label: "delivered at the first attempt",
    covers: ({ end, attempts }) => end === "delivered" && attempts === 1,
  },
  {
    label: "delivered after retries",
    covers: ({ end, attempts }) => end === "delivered" && attempts > 1,
  },
  {
    label: "failed: attempts exhausted",
    covers: ({ end }) => end === "attempts_exhausted",
  },
  { label: "failed: a permanent status", covers: ({ end }) => end === "permanent_status" },
];

/** What differs from what was expected, one line a task; empty when all is as it should be. */
export function differences(
  tasks: readonly DemoTask[],
  seen: ReadonlyMap<string, Ending>,
): string[] {
  return tasks.flatMap(({ name, expected }) => {
    const came = seen.get(name);
    if (came?.end === expected.end && came.attempts === expected.attempts) return [];
    return [`${name}: expected ${inWords(expected)}, but ${came ? inWords(came) : "it is lost"}`];
  });
}

function inWords({ end, attempts }: Ending): string {
  const number = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  return `${end.replace("_", " ")} after ${number}`;
}
