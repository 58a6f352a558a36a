/**
 * A row of the table of failed tasks.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

import type { FailedTask } from "../failed_task.ts";
import { make, makeButton } from "./dom.ts";
import { formatCount, formatMoment, showText } from "./format.ts";
import { REASON_TEXT } from "./view.ts";

/** What a row can be asked for. */
export interface RowActs {
  select(id: string, selected: boolean): void;
  show(id: string): void;
  redrive(id: string): void;
  remove(id: string): void;
}

/** Makes the row of `task`. */
export function makeRow(task: FailedTask, selected: boolean, acts: RowActs): HTMLTableRowElement {
  const name = showText(task.id);
  const box = make("input");
  box.type = "checkbox";
  box.checked = selected;
  box.ariaLabel = `Select ${name}`;
  box.addEventListener("change", () => acts.select(task.id, box.checked));
  const id = make("th", "id", make("bdi", "", name));
  id.scope = "row";
  const remove = makeButton("Delete", `Delete ${name}`, () => acts.remove(task.id));
  remove.className = "danger";
  const buttons = make(
    "div",
    "actions",
    makeButton("Details", `Details of ${name}`, () => acts.show(task.id)),
    makeButton("Redrive", `Redrive ${name}`, () => acts.redrive(task.id)),
    remove,
  );
  const again = task.redriven > 0 ? `, redriven ${formatCount(task.redriven)}×` : "";
  const row = make(
    "tr",
    "",
    make("td", "", box),
    id,
    make(
      "td",
      "",
      whyOf(task),
      make("span", "error", make("bdi", "", showText(task.lastError ?? ""))),
    ),
    make(
      "td",
      "",
      `${formatCount(task.attempts)} ${task.attempts === 1 ? "attempt" : "attempts"}${again}`,
    ),
    make("td", "", formatMoment(task.failedAt)),
    make("td", "", buttons),
  );
  row.dataset["id"] = task.id;
  return row;
}

/** Why a task lies there, in words. */
export function whyOf({ reason, lastStatus }: FailedTask): string {
  const status = lastStatus === null ? "" : `; the backend answered ${lastStatus}`;
  return REASON_TEXT[reason] + status;
}
