/**
 * The dashboard in the browser: listens, shows, and does what is clicked.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

import type { StatsSample } from "../stats.ts";
import { showCharts } from "./charts.ts";
import { ask, part, setText } from "./dom.ts";
import { FailedTable } from "./failed.ts";
import { listen } from "./live.ts";
import { showOverview, showPaused } from "./overview.ts";
import { hasToken, keepToken, requestJson, TokenError } from "./relay_api.ts";
import { addSample, depthOf, type Now } from "./view.ts";

/** The failed queue is read no more often than this while its depth changes. */
const RELOAD_MS = 2_000;

const table = new FailedTable(run);
let samples: readonly StatsSample[] = [];
let step = 5;
let failedDepth: number | null = null;
let reloading = false;
let listening = false;

/** Does a deed; its trouble is shown until the next one. */
function run(deed: () => Promise<void>): void {
  const trouble = part("trouble", HTMLElement);
  trouble.hidden = true;
  deed().catch((error: unknown) => {
    if (error instanceof TokenError) return askForToken(error);
    setText(trouble, error instanceof Error ? error.message : String(error));
    trouble.hidden = false;
  });
}

function onStats(
  { history, ...now }: Parameters<Parameters<typeof listen>[0]["onStats"]>[0],
): void {
  if (history !== undefined) {
    samples = history.samples;
    step = history.stepSeconds;
    showCharts(samples, step);
  }
  setConnection("live", now.replica.active ? "live" : "live, standing by");
  showOverview(now, samples.at(-1), step);
  reloadWhenChanged(now);
}

/** Others redrive too, and tasks fail meanwhile: the depth tells when the table is out of date. */
function reloadWhenChanged(now: Now): void {
  const depth = depthOf(now, "failed");
  if (depth === failedDepth || reloading) return;
  failedDepth = depth;
  reloading = true;
  setTimeout(() => reloading = false, RELOAD_MS);
  run(() => table.load());
}

function setConnection(state: "live" | "lost", text: string): void {
  const element = part("connection", HTMLElement);
  element.dataset["state"] = state;
  setText(element, text);
}

function askForToken(error: TokenError): void {
  part("main", HTMLElement).hidden = true;
  part("login", HTMLElement).hidden = false;
  setText(part("login-trouble", HTMLElement), hasToken() ? `Not this one. ${error.message}` : "");
  setText(part("connection", HTMLElement), "needs a token");
  part("token", HTMLInputElement).focus();
}

function showMain(): void {
  part("login", HTMLElement).hidden = true;
  part("main", HTMLElement).hidden = false;
  run(() => table.load());
}

async function setPaused(verb: "pause" | "resume"): Promise<void> {
  const { paused } = await requestJson<{ paused: boolean }>(`/${verb}`, { method: "POST" });
  showPaused(paused);
}

/** Listens until the relay wants a token; what it is answered first tells whether it does. */
async function start(): Promise<void> {
  if (listening) return showMain(); // only a click was refused, with an old token
  listening = true;
  const error = await listen({
    onOpen: showMain,
    onStats,
    onSample: (sample) => {
      samples = addSample(samples, sample, step);
      showCharts(samples, step);
    },
    onLost: () => setConnection("lost", "connection lost, trying again"),
  });
  listening = false;
  askForToken(error);
}

part("login", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  const input = part("token", HTMLInputElement);
  keepToken(input.value);
  input.value = "";
  void start();
});
part("pause", HTMLButtonElement).addEventListener("click", () =>
  run(async () => {
    const text = "No replica delivers until somebody resumes. Tasks are still accepted and wait.";
    if (await ask("Pause delivering?", text, "Pause")) await setPaused("pause");
  }));
part("resume", HTMLButtonElement).addEventListener("click", () => run(() => setPaused("resume")));
void start();
