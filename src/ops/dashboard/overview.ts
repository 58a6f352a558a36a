/**
 * Puts the present figures into the diagram.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

import type { StatsSample } from "../stats.ts";
import { make, part, setText } from "./dom.ts";
import { formatCount, formatDuration } from "./format.ts";
import { gateText, type Now, type Part, partsOf, replicaText } from "./view.ts";

/** Shows how the relay stands. `last` is the newest sample, of `step` seconds. */
export function showOverview(now: Now, last: StatsSample | undefined, step: number): void {
  setText(part("identity", HTMLElement), `${now.queuePrefix} · version ${now.version}`);
  for (const [name, content] of Object.entries(partsOf(now, last, step))) {
    showPart(`stage-${name}`, content);
  }
  showMeter("stage-limiter", now.limit.used, now.limit.maxRequests);
  showMeter("stage-backend", now.inFlight, now.concurrency);
  showRungs(now);
  showFact("gate", gateText(now), now.gate.state === "open" ? "calm" : "warn");
  showFact("oldest", now.oldestDueSeconds === null ? "none" : formatDuration(now.oldestDueSeconds));
  const drain = now.drainSeconds === null ? "never, as it goes" : formatDuration(now.drainSeconds);
  showFact("drain", drain, now.drainSeconds === null ? "warn" : "calm");
  showFact("replica", replicaText(now));
  showPaused(now.paused);
}

/** Shows whether delivering is paused. */
export function showPaused(paused: boolean): void {
  part("paused", HTMLElement).hidden = !paused;
  const button = part("pause", HTMLButtonElement);
  button.disabled = false;
  button.hidden = paused;
}

function showPart(id: string, { value, note, tone }: Part): void {
  const element = part(id, HTMLElement);
  element.dataset["tone"] = tone;
  const [strong, small] = [element.querySelector("strong"), element.querySelector("p")];
  if (strong !== null) setText(strong, value);
  if (small !== null) setText(small, note);
}

function showMeter(id: string, value: number, most: number): void {
  const meter = part(id, HTMLElement).querySelector("meter");
  if (meter === null) return;
  meter.max = most;
  meter.value = value;
}

function showFact(id: string, text: string, tone = "calm"): void {
  const element = part(id, HTMLElement);
  element.dataset["tone"] = tone;
  setText(element, text);
}

function showRungs({ queues }: Now): void {
  const rungs = queues.filter(({ role }) => role === "retry" || role === "delay");
  const items = rungs.map(({ role, delaySeconds, messages }) => {
    const text = `${role === "delay" ? "due " : ""}in ${formatDuration(delaySeconds)}: ` +
      formatCount(messages);
    const item = make("li", "", text);
    if (messages !== null && messages > 0) item.dataset["holds"] = "";
    return item;
  });
  part("rungs", HTMLElement).replaceChildren(...items);
}
