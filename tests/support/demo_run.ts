/**
 * A running demo: tasks that were posted, what is shown of them, and what became of them.
 *
 * What is shown while it runs is the relay's log. What became of the tasks in the end is not taken
 * from the relay's word, but from what reached the backend and what lies in the failed queue.
 *
 * @module
 */
import { setTimeout as delay } from "node:timers/promises";
import type { TestAmqp } from "./amqp.ts";
import { perFixedWindow } from "./arrivals.ts";
import { attemptInWords, type Gauge, type Screen } from "./demo_screen.ts";
import type { DemoTask, Ending } from "./demo_tasks.ts";
import type { QueueNames } from "./queues.ts";
import type { RelayProcess } from "./relay.ts";
import type { LogLine } from "./relay_log.ts";
import type { SampleExchange } from "./sample_backend.ts";

const LOOK_EVERY_MS = 100;
/** Without a terminal each picture stays, so there are fewer. */
const PICTURE_EVERY_MS = { live: 200, plain: 5000 };

/** What a demo is made of. */
export interface DemoParts {
  readonly screen: Screen;
  readonly amqp: TestAmqp;
  readonly relay: RelayProcess;
  readonly queues: QueueNames;
  /** What the sample backend was asked; it grows. */
  readonly exchanges: readonly SampleExchange[];
}

export class DemoRun {
  readonly #parts: DemoParts;
  readonly #tasks = new Map<string, DemoTask>();
  readonly #delivered = new Set<string>();
  readonly #failed = new Set<string>();
  readonly #startedAt = Date.now();
  #shown = 0;
  #nextPicture = 0;

  constructor(parts: DemoParts) {
    this.#parts = parts;
  }

  /** Tasks that were accepted. */
  get tasks(): DemoTask[] {
    return [...this.#tasks.values()];
  }

  /** Whether every task has ended, by the relay's word. */
  get done(): boolean {
    return this.#delivered.size + this.#failed.size === this.#tasks.size;
  }

  /** Posts tasks, all at once. @throws when one is not accepted */
  async post(tasks: readonly DemoTask[]): Promise<void> {
    const { relay, screen } = this.#parts;
    const before = performance.now();
    await Promise.all(tasks.map(async (task) => {
      this.#tasks.set(await relay.accept(JSON.stringify(task.payload)), task);
    }));
    const ms = Math.round(performance.now() - before);
    const text = `posted ${tasks.length} tasks, each answered 202 within ${ms} ms`;
    screen.say(`${this.#time(Date.now())} ${screen.paint("bold", text)}`);
  }

  /** Shows what happens until `enough` or until `signal` aborts. */
  async watch(enough: () => boolean, signal: AbortSignal): Promise<void> {
    const { screen } = this.#parts;
    while (!signal.aborted) {
      this.#showAttempts();
      if (enough()) break;
      if (performance.now() >= this.#nextPicture) {
        const { live, plain } = PICTURE_EVERY_MS;
        this.#nextPicture = performance.now() + (screen.live ? live : plain);
        screen.draw(await this.#gauges());
      }
      await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** Draws the last picture. */
  async lastPicture(): Promise<void> {
    this.#parts.screen.draw(await this.#gauges());
    this.#parts.screen.settle();
  }

  /** How each task has ended, by its name; a task that has not is not in it. */
  async endings(): Promise<Map<string, Ending>> {
    const { exchanges, amqp, queues } = this.#parts;
    const endings = new Map<string, Ending>();
    const note = (id: string, end: Ending["end"]): void => {
      const task = this.#tasks.get(id);
      const attempts = exchanges.filter(({ taskId }) => taskId === id).length;
      if (task) endings.set(task.name, { end, attempts });
    };
    for (const { taskId, status } of exchanges) if (status === 200) note(taskId, "delivered");
    for (const { id, headers } of await amqp.peekAll(queues.failed)) {
      const reason = headers["relay-reason"];
      if (reason === "attempts_exhausted" || reason === "permanent_status") note(id, reason);
    }
    return endings;
  }

  /** Requests that reached the backend, second by second. */
  requestsPerSecond(): number[] {
    const times = this.#parts.exchanges.map(({ at }) => at);
    // From half a second before the first, so that no group of a window lies on a border.
    return perFixedWindow(times, 1000, (times[0] ?? 0) - 500);
  }

  #showAttempts(): void {
    const { relay, screen } = this.#parts;
    for (; this.#shown < relay.logs.length; this.#shown++) {
      const line = relay.logs[this.#shown];
      const task = line && this.#tasks.get(String(line["task_id"]));
      if (line?.message === "attempt" && task) this.#showAttempt(task, line);
      else if (line && /^(WARN|ERROR|FATAL)/i.test(line.level)) {
        screen.say(`  ${screen.paint("red", `the relay warns: ${JSON.stringify(line)}`)}`);
      }
    }
  }

  #showAttempt(task: DemoTask, line: LogLine): void {
    const id = String(line["task_id"]);
    if (line["disposition"] === "delivered") this.#delivered.add(id);
    if (line["disposition"] === "failed") this.#failed.add(id);
    const time = this.#time(Date.parse(String(line["@timestamp"])));
    this.#parts.screen.say(`${time} ${attemptInWords(this.#parts.screen, task.name, line)}`);
  }

  #time(at: number): string {
    const seconds = Math.max(0, at - this.#startedAt) / 1000;
    return this.#parts.screen.paint("grey", `${seconds.toFixed(1).padStart(6)} s `);
  }

  async #gauges(): Promise<Gauge[]> {
    const { amqp, queues } = this.#parts;
    const depths = await amqp.depths(queues.all);
    const lying = queues.all.map((queue) => depths[queue] ?? 0);
    const elsewhere = this.#delivered.size + lying.reduce((sum, count) => sum + count, 0);
    const held = Math.max(0, this.#tasks.size - elsewhere);
    const gauges = queues.all.map((queue): Gauge => {
      const count = depths[queue] ?? 0;
      if (queue === queues.main) {
        return { label: queue, count, colour: "cyan", note: "waits in RabbitMQ" };
      }
      if (queue === queues.failed) {
        return { label: queue, count, colour: "red", note: "kept with its reason" };
      }
      return {
        label: queue,
        count,
        colour: "yellow",
        note: "comes back by itself",
      };
    });
    const relay: Gauge = {
      label: "(in the relay)",
      count: held,
      colour: "cyan",
      note: "waits for the rate limit",
    };
    const delivered: Gauge = {
      label: "(delivered)",
      count: this.#delivered.size,
      colour: "green",
      note: "the backend said 200",
    };
    return [...gauges.slice(0, 1), relay, ...gauges.slice(1), delivered];
  }
}
