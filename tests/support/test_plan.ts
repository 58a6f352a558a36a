/**
 * Which test files may run side by side.
 *
 * @module
 */

/** Files that measure time or memory so closely that they get the machine for themselves. */
const MEASURING: readonly string[] = [
  "tests/faults/memory_test.ts",
  "tests/faults/replicas_test.ts",
  "tests/integration/delays_test.ts",
  "tests/integration/failed_many_test.ts",
  "tests/integration/gate_test.ts",
  "tests/integration/ladder_test.ts",
  "tests/integration/limit_test.ts",
];

/** playwright-core looks into /proc, which Deno lets only who may do everything. */
const BROWSER = "tests/browser/";

/** The test files in three parts. */
export interface TestPlan {
  readonly alone: readonly string[];
  readonly sideBySide: readonly string[];
  /** One after the other, with all permissions. */
  readonly browser: readonly string[];
}

/**
 * The plan for files and folders as a person names them: all the files of a folder, and a file that
 * is named itself, alone, so that its output comes in order.
 */
export function planOf(named: readonly string[]): TestPlan {
  const files = named.filter((path) => !Deno.statSync(path).isDirectory);
  const found = named.filter((path) => !files.includes(path)).flatMap(testFiles);
  const isBrowser = (path: string): boolean => path.replace(/^\.\//, "").startsWith(BROWSER);
  const alone = [...files, ...found.filter((path) => MEASURING.includes(path))];
  return {
    alone: alone.filter((path) => !isBrowser(path)),
    sideBySide: found.filter((path) => !MEASURING.includes(path) && !isBrowser(path)),
    browser: [...files, ...found].filter(isBrowser),
  };
}

function testFiles(folder: string): string[] {
  const base = folder.replace(/^\.\//, "").replace(/\/+$/, "");
  return [...Deno.readDirSync(base)].flatMap(({ name, isDirectory }) => {
    const path = `${base}/${name}`;
    if (isDirectory) return testFiles(path);
    return name.endsWith("_test.ts") ? [path] : [];
  }).sort();
}
