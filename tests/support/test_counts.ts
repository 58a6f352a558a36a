/**
 * Reads from the output of `deno test` how many tests passed and failed, so that what CI reports is
 * what ran and not what somebody wrote down.
 *
 * @module
 */

/** How many tests ran, and how. Steps within a test are not counted. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
}

const COLOUR = new RegExp(String.raw`\u001b\[[\d;]*m`, "g");
const SUMMARY =
  /^(?:ok|FAILED) \| (\d+) passed(?: \([^)]*\))? \| (\d+) failed(?: \([^)]*\))?(?: \| (\d+) ignored)?/;

/**
 * The counts in the last summary line of the output. A test that was told not to run counts as
 * failed: it would have proved nothing. A run without a summary, or one that was not successful
 * although nothing failed in it, counts as one failure.
 */
export function readCounts(output: string, success: boolean): Counts {
  const summary = output.replace(COLOUR, "").split("\n")
    .map((line) => SUMMARY.exec(line))
    .findLast((match) => match !== null);
  if (!summary) return { passed: 0, failed: 1 };
  const [, passed, failed, ignored = "0"] = summary;
  const notPassed = Number(failed) + Number(ignored);
  return { passed: Number(passed), failed: success ? notPassed : Math.max(1, notPassed) };
}
