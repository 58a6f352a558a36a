/**
 * The table of failed tasks: filter, pages, details, and what is done with them.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

import type { Page } from "../browse.ts";
import type { FailedTaskDetail } from "../failed_task.ts";
import { showDetails } from "./details.ts";
import { ask, part, setText } from "./dom.ts";
import { makeRow, type RowActs } from "./failed_row.ts";
import { formatCount, showText } from "./format.ts";
import { postJson, requestJson } from "./relay_api.ts";
import { REASON_TEXT } from "./view.ts";

const PAGE = 50;

/** The table; `run` does a deed and tells its trouble. */
export class FailedTable {
  readonly #run: (deed: () => Promise<void>) => void;
  readonly #selected = new Set<string>();
  #filter: Readonly<Record<string, string>> = {};
  #after: string | undefined;
  #next: string | null = null;
  #shown = "";

  constructor(run: (deed: () => Promise<void>) => void) {
    this.#run = run;
    for (const [reason, text] of Object.entries(REASON_TEXT)) {
      part("reason", HTMLSelectElement).append(new Option(text, reason));
    }
    part("filter", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run(() => this.#applyFilter());
    });
    this.#onClick("first", () => this.#turnTo(undefined));
    this.#onClick("next", () => this.#turnTo(this.#next ?? undefined));
    this.#onClick("redrive-selected", () => this.#redrive({ ids: [...this.#selected] }));
    this.#onClick("redrive-all", () => this.#redrive({ all: true, ...this.#bodyFilter() }));
    const all = part("select-all", HTMLInputElement);
    all.addEventListener("change", () => {
      // Each click sets the box of all anew.
      const { checked } = all;
      for (const box of document.querySelectorAll<HTMLInputElement>("#rows input")) {
        if (box.checked !== checked) box.click();
      }
    });
  }

  /** Reads the page anew; rows that are as they were stay, with the focus in them. */
  async load(): Promise<void> {
    const query = new URLSearchParams({ limit: String(PAGE), ...this.#filter });
    if (this.#after !== undefined) query.set("after", this.#after);
    const page = await requestJson<Page>(`/failed?${query}`);
    this.#next = page.next;
    const shown = JSON.stringify(page.tasks);
    if (shown !== this.#shown) this.#showRows(page);
    this.#shown = shown;
    part("empty", HTMLElement).hidden = page.tasks.length > 0;
    setText(
      part("empty", HTMLElement),
      page.total === 0
        ? "No failed task. Nothing to do here."
        : "No failed task matches on this page.",
    );
    setText(part("failed-count", HTMLElement), `${formatCount(page.total)} in the queue`);
    part("first", HTMLElement).hidden = this.#after === undefined;
    part("next", HTMLElement).hidden = page.next === null;
  }

  #showRows({ tasks }: Page): void {
    const focused = document.activeElement?.closest("tr")?.dataset["id"];
    const label = document.activeElement?.getAttribute("aria-label");
    const ids = new Set(tasks.map(({ id }) => id));
    for (const id of this.#selected) if (!ids.has(id)) this.#selected.delete(id);
    const rows = tasks.map((task) => makeRow(task, this.#selected.has(task.id), this.#acts));
    part("rows", HTMLElement).replaceChildren(...rows);
    this.#showSelected();
    if (focused === undefined) return;
    const row = rows.find(({ dataset }) => dataset["id"] === focused);
    const same = [...row?.querySelectorAll<HTMLElement>("button, input") ?? []]
      .find((element) => element.ariaLabel === label);
    // Where the row is gone the keyboard goes on at the section.
    (same ?? part("failed", HTMLElement)).focus({ preventScroll: true });
  }

  readonly #acts: RowActs = {
    select: (id, selected) => {
      if (selected) this.#selected.add(id);
      else this.#selected.delete(id);
      this.#showSelected();
    },
    show: (id) =>
      this.#run(async () =>
        showDetails(await requestJson<FailedTaskDetail>(`/failed/${encodeURIComponent(id)}`))
      ),
    redrive: (id) => this.#run(() => this.#send({ ids: [id] })),
    remove: (id) => this.#run(() => this.#remove(id)),
  };

  async #redrive(selection: Readonly<Record<string, unknown>>): Promise<void> {
    const { matched } = await postJson<{ matched: number }>("/failed/redrive", {
      ...selection,
      dryRun: true,
    });
    const what = matched === 1 ? "1 task" : `${formatCount(matched)} tasks`;
    const text = `${what} will be sent to the backend again, from the first attempt.`;
    if (await ask(`Redrive ${what}?`, text, "Redrive")) await this.#send(selection);
  }

  async #send(selection: Readonly<Record<string, unknown>>): Promise<void> {
    const { redriven } = await postJson<{ redriven: number }>("/failed/redrive", selection);
    await this.load();
    setText(part("failed-count", HTMLElement), `${formatCount(redriven)} redriven`);
  }

  async #remove(id: string): Promise<void> {
    const text = `${showText(id)} and its payload will be gone for good.`;
    if (!await ask("Delete this task?", text, "Delete")) return;
    await requestJson(`/failed/${encodeURIComponent(id)}`, { method: "DELETE" });
    await this.load();
  }

  async #applyFilter(): Promise<void> {
    const reason = part("reason", HTMLSelectElement).value;
    const status = part("status", HTMLInputElement).value;
    this.#filter = { ...(reason !== "" && { reason }), ...(status !== "" && { status }) };
    await this.#turnTo(undefined);
  }

  async #turnTo(after: string | undefined): Promise<void> {
    this.#after = after;
    await this.load();
  }

  #bodyFilter(): Readonly<Record<string, unknown>> {
    const { status, ...rest } = this.#filter;
    return { ...rest, ...(status !== undefined && { status: Number(status) }) };
  }

  #showSelected(): void {
    const button = part("redrive-selected", HTMLButtonElement);
    button.disabled = this.#selected.size === 0;
    setText(
      button,
      this.#selected.size === 0 ? "Redrive selected" : `Redrive selected (${this.#selected.size})`,
    );
    part("select-all", HTMLInputElement).checked = this.#selected.size > 0 &&
      this.#selected.size === document.querySelectorAll("#rows tr").length;
  }

  #onClick(id: string, deed: () => Promise<void>): void {
    part(id, HTMLButtonElement).addEventListener("click", () => this.#run(deed));
  }
}
