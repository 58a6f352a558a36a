/**
 * The dialog that tells all of one failed task.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

import type { FailedTaskDetail } from "../failed_task.ts";
import { make, part, setText } from "./dom.ts";
import { formatCount, formatMoment, formatMs, prettyJson, showText, UNKNOWN } from "./format.ts";
import { whyOf } from "./failed_row.ts";

/** Opens it. */
export function showDetails(task: FailedTaskDetail): void {
  setText(part("details-title", HTMLElement), showText(task.id));
  const facts = [
    ["Why", whyOf(task)],
    ["Last error", task.lastError ?? UNKNOWN],
    ["Accepted", formatMoment(task.enqueuedAt)],
    ["Failed", formatMoment(task.failedAt)],
    ["Content type", task.contentType ?? UNKNOWN],
    ["Idempotency key", task.idempotencyKey ?? UNKNOWN],
    ["Size", `${formatCount(task.bytes)} bytes`],
    ["Redriven", `${formatCount(task.redriven)} times`],
  ] as const;
  part("details-facts", HTMLElement).replaceChildren(
    ...facts.map(([name, value]) =>
      make("div", "", make("dt", "", name), make("dd", "", make("bdi", "", showText(value))))
    ),
  );
  const attempts = task.history.map(({ time, outcome, status, ms, error }) => {
    const moment = formatMoment(new Date(time).toISOString());
    const what = status === undefined ? outcome : `status ${status}`;
    return make(
      "li",
      "",
      `${moment}: ${what} after ${formatMs(ms)} `,
      make("bdi", "", showText(error ?? "")),
    );
  });
  const none = make("li", "", "None is on record.");
  part("details-history", HTMLElement).replaceChildren(...attempts.length > 0 ? attempts : [none]);
  showPayload(task);
  const dialog = part("details", HTMLDialogElement);
  part("details-close", HTMLButtonElement).onclick = () => dialog.close();
  dialog.showModal();
}

function showPayload({ payload, payloadEncoding }: FailedTaskDetail): void {
  const raw = part("details-raw", HTMLInputElement);
  const pretty = payloadEncoding === "utf-8" ? prettyJson(payload) : undefined;
  const show = (): void => {
    const text = raw.checked ? payload : pretty ?? payload;
    const note = payloadEncoding === "base64" ? "(no text; as base64)\n" : "";
    setText(part("details-payload", HTMLElement), note + showText(text));
  };
  raw.disabled = pretty === undefined;
  raw.onchange = show;
  show();
}
