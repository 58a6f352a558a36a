/**
 * Draws the charts of the last 15 minutes.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

import type { StatsSample } from "../stats.ts";
import { HEIGHT, linePath, type Series, summaryOf, topOf, WIDTH } from "./chart.ts";
import { draw, make, part } from "./dom.ts";
import { formatCount, formatMs, formatRate, UNKNOWN } from "./format.ts";
import { slotsOf, statusCounts } from "./view.ts";

interface Chart {
  readonly title: string;
  readonly format: (value: number) => string;
  readonly series: readonly Series[];
}

/** Draws them anew. */
export function showCharts(samples: readonly StatsSample[], step: number): void {
  const slots = slotsOf(step);
  const charts = chartsOf(samples, step).map((chart) => drawChart(chart, slots));
  part("charts", HTMLElement).replaceChildren(...charts, statusTable(samples));
}

function chartsOf(samples: readonly StatsSample[], step: number): readonly Chart[] {
  const series = (name: string, pick: (sample: StatsSample) => number | null): Series => ({
    name,
    values: samples.map(pick),
  });
  return [
    {
      title: "Tasks a second",
      format: formatRate,
      series: [
        series("accepted", ({ accepted }) => accepted / step),
        series("delivered", ({ delivered }) => delivered / step),
        series("retried", ({ retried }) => retried / step),
        series("failed", ({ failed }) => failed / step),
      ],
    },
    {
      title: "Duration of attempts",
      format: formatMs,
      series: [series("median", ({ p50Ms }) => p50Ms), series("95th percentile", (s) => s.p95Ms)],
    },
    {
      title: "Tasks that wait",
      format: (value) => formatCount(Math.round(value)),
      series: [series("in main and on the rungs", ({ waiting }) => waiting)],
    },
  ];
}

function drawChart({ title, format, series }: Chart, slots: number): HTMLElement {
  const top = topOf(series);
  const summary = series.map((each) => summaryOf(each, format)).join("; ");
  const svg = draw("svg", {
    viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `${title}. ${summary}.`,
  });
  for (const y of [0, HEIGHT]) {
    svg.append(draw("line", { x1: "0", x2: `${WIDTH}`, y1: `${y}`, y2: `${y}` }));
  }
  series.forEach(({ values }, n) => {
    svg.append(draw("path", { class: `series-${n}`, d: linePath(values, top, slots) }));
  });
  const legend = make("p", "legend", ...series.map((each, n) => legendOf(each, n, format)));
  const scale = make("p", "scale", "15 min ago", make("span", "", `top: ${format(top)}`), "now");
  scale.ariaHidden = "true";
  return make("section", "chart", make("h3", "", title), svg, scale, legend);
}

function legendOf({ name, values }: Series, n: number, format: Chart["format"]): HTMLElement {
  const key = draw("svg", { viewBox: "0 0 20 4", "aria-hidden": "true" });
  key.append(draw("path", { class: `series-${n}`, d: "M0 2H20" }));
  const last = values.at(-1);
  const text = last === null || last === undefined ? UNKNOWN : format(last);
  return make("span", "", key, `${name} ${text}`);
}

function statusTable(samples: readonly StatsSample[]): HTMLElement {
  const counts = statusCounts(samples).slice(0, 6);
  const most = Math.max(1, ...counts.map(([, count]) => count));
  const rows = counts.map(([status, count]) => {
    const name = make("th", "", status);
    name.scope = "row";
    const meter = make("meter");
    meter.max = most;
    meter.value = count;
    meter.ariaHidden = "true";
    return make("tr", "", name, make("td", "", meter), make("td", "", formatCount(count)));
  });
  const title = make("h3", "", "What the backend answered");
  title.id = "statuses-title";
  const table = make("table", "statuses", make("tbody", "", ...rows));
  table.setAttribute("aria-labelledby", title.id);
  const content = rows.length === 0 ? make("p", "", "No attempt ended.") : table;
  return make("section", "chart", title, content);
}
