/**
 * An operators' listener without a relay behind it: the dashboard's real files, figures that a test
 * sets, and failed tasks in a list. It can go away and come back at its port.
 *
 * @module
 */

import { createAssets } from "../../src/ops/dashboard/assets.ts";
import type { FailedTaskDetail } from "../../src/ops/failed_task.ts";
import type { Stats, StatsSample } from "../../src/ops/stats.ts";
import { freePort } from "./ports.ts";
import { sampleStats, sampleTasks } from "./sample_stats.ts";

type Stream = ReadableStreamDefaultController<Uint8Array>;

/** See the module. */
export class FakeOps {
  readonly port = freePort();
  readonly url = `http://127.0.0.1:${this.port}`;
  /** Requests that change something, such as `POST /pause`. */
  readonly deeds: string[] = [];
  stats: Stats = sampleStats();
  tasks: FailedTaskDetail[] = sampleTasks();
  /** When set, all but the files needs it. */
  token: string | undefined;
  readonly #assets = createAssets();
  readonly #streams = new Set<Stream>();
  #server: Deno.HttpServer | undefined;

  start(): void {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: this.port, onListen: () => {} },
      (request) => this.#answer(request),
    );
  }

  /** Goes away; streams break off. */
  async stop(): Promise<void> {
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
    await this.#server?.shutdown();
    this.#server = undefined;
  }

  /** Sends the present figures, and a sample when given, to who listens. */
  tell(sample?: StatsSample): void {
    const { history: _, ...now } = this.stats;
    for (const stream of this.#streams) {
      if (sample !== undefined) send(stream, "sample", sample);
      send(stream, "stats", now);
    }
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const asset = this.#assets(pathname);
    if (asset !== undefined) return asset;
    if (
      this.token !== undefined && request.headers.get("authorization") !== `Bearer ${this.token}`
    ) return Response.json({ detail: "This needs the operators' token." }, { status: 401 });
    if (pathname === "/events") return this.#stream();
    if (request.method !== "GET") {
      const body = await request.text();
      this.deeds.push(`${request.method} ${pathname} ${body}`.trim());
      return this.#change(request.method, pathname, body);
    }
    if (pathname === "/failed") return this.#list(searchParams);
    const id = decodeURIComponent(pathname.slice("/failed/".length));
    return Response.json(this.tasks.find((task) => task.id === id));
  }

  #list(query: URLSearchParams): Response {
    const matching = this.tasks.filter(({ id: _, reason, lastStatus }) =>
      (query.get("reason") ?? reason) === reason &&
      (query.get("status") ?? String(lastStatus)) === String(lastStatus)
    );
    const begin = matching.findIndex(({ id }) => id === query.get("after")) + 1;
    const tasks = matching.slice(begin, begin + Number(query.get("limit")));
    const isMore = begin + tasks.length < matching.length;
    const next = isMore ? tasks.at(-1)?.id ?? null : null;
    return Response.json({ total: this.tasks.length, tasks, next });
  }

  #change(method: string, path: string, body: string): Response {
    if (path === "/pause" || path === "/resume") {
      this.stats = { ...this.stats, paused: path === "/pause" };
      return Response.json({ paused: this.stats.paused });
    }
    if (method === "DELETE") {
      this.tasks = this.tasks.filter(({ id }) => path !== `/failed/${encodeURIComponent(id)}`);
      return Response.json({ deleted: 1 });
    }
    const { ids, reason, status, dryRun } = JSON.parse(body);
    const isMeant = (task: FailedTaskDetail): boolean =>
      (ids === undefined || ids.includes(task.id)) &&
      (reason === undefined || reason === task.reason) &&
      (status === undefined || status === task.lastStatus);
    const matched = this.tasks.filter(isMeant).length;
    if (dryRun === true) return Response.json({ matched, redriven: 0 });
    this.tasks = this.tasks.filter((task) => !isMeant(task));
    return Response.json({ matched, redriven: matched });
  }

  #stream(): Response {
    let own: Stream;
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        own = stream;
        this.#streams.add(stream);
        send(stream, "stats", this.stats);
      },
      cancel: () => void this.#streams.delete(own),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }
}

function send(stream: Stream, name: string, data: unknown): void {
  stream.enqueue(new TextEncoder().encode(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`));
}

/** Runs `fn` with one. */
export async function withFakeOps(fn: (ops: FakeOps) => Promise<void>): Promise<void> {
  const ops = new FakeOps();
  ops.start();
  try {
    await fn(ops);
  } finally {
    await ops.stop();
  }
}
