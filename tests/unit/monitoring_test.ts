/**
 * The example alerts and the dashboard: that they are valid, do what they say, and ask for metrics
 * that there are.
 *
 * @module
 */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { parseLadder } from "../../src/config.ts";
import { Meters } from "../../src/consumer/meters.ts";
import type { MetricReport } from "../../src/metric_report.ts";
import { gaugesOf } from "../../src/ops/gauges.ts";
import { Intake } from "../../src/ops/intake.ts";
import type { Stats } from "../../src/ops/stats.ts";
import dashboard from "../../monitoring/grafana-dashboard.json" with { type: "json" };
import { promtool } from "../support/promtool.ts";

const FOLDER = fileURLToPath(new URL("../../monitoring/", import.meta.url));
const RULES = `${FOLDER}queue-relay.rules.yml`;

/** All that a relay exports. */
async function exported(): Promise<readonly MetricReport[]> {
  const stats = { queues: [], replica: {}, gate: {} } as unknown as Stats;
  const counted = [await new Meters(parseLadder("1x0s")).report(), await new Intake().report()];
  return [...counted.flat(), ...gaugesOf(stats, 0)];
}

/** The metrics that an expression names; of a histogram, the histogram. */
function namesIn(text: string): string[] {
  const names = text.match(/\bqueue_relay_[a-z_]+/g) ?? [];
  return [...new Set(names.map((name) => name.replace(/_(bucket|sum|count)$/, "")))];
}

function expressions(): string[] {
  return dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
}

/** What Grafana puts in its variables' places. */
function filledIn(expression: string): string {
  return expression.replaceAll("$__rate_interval", "1m").replaceAll("$job", "relay");
}

Deno.test("alerts: promtool finds nothing", async () => {
  const { ok, said } = await promtool(["check", "rules", RULES]);
  assert.ok(ok, said);
  assert.match(said, /SUCCESS: \d+ rules found/);
});

Deno.test("alerts: each fires when it should and not when it should not", async () => {
  const { ok, said } = await promtool(["test", "rules", `${FOLDER}queue-relay.rules.test.yml`]);
  assert.ok(ok, said);
});

Deno.test("alerts and dashboard: every metric that they name is one of the relay's", async () => {
  const known = (await exported()).map(({ name }) => name);
  const rules = await Deno.readTextFile(RULES);
  const named = namesIn([rules, JSON.stringify(dashboard)].join("\n"));
  assert.deepEqual(named.filter((name) => !known.includes(name)), []);
  assert.ok(named.length > 10, `only ${named}`);
});

Deno.test("dashboard: every expression is one that Prometheus can read", async () => {
  const rules = expressions().map((expr, n) => ({ record: `panel:${n}`, expr: filledIn(expr) }));
  assert.ok(rules.length > 20);
  const path = await Deno.makeTempFile({ suffix: ".json" });
  await Deno.writeTextFile(path, JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
  const { ok, said } = await promtool(["check", "rules", "--lint=none", path]);
  await Deno.remove(path);
  assert.ok(ok, said);
});

Deno.test("dashboard: every metric of the contract is on it", async () => {
  const shown = namesIn(expressions().join("\n"));
  const all = (await exported()).map(({ name }) => name);
  assert.deepEqual(all.filter((name) => !shown.includes(name)), ["queue_relay_build_info"]);
});
