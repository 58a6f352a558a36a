/**
 * A small backend that fails on purpose, for `deno task demo` and compose.yaml: something to watch
 * the relay with, before one's own backend is there.
 *
 * What it answers is written in the task, so that what should come of a task is known before it is
 * posted. It needs nothing but this file:
 *
 *     PORT=8090 deno run --allow-net --allow-env=PORT tests/support/sample_backend.ts
 *
 * | payload                            | answer                                        |
 * |------------------------------------|-----------------------------------------------|
 * | `{"demo":"flaky","failures":2}`    | 503 at the first 2 attempts, then 200         |
 * | `{"demo":"broken"}`                | 500, always                                   |
 * | `{"demo":"invalid"}`               | 422, always: sending it again will not help   |
 * | anything else                      | 200                                           |
 *
 * @module
 */

/** An answer and the sentence that explains it. */
export interface SampleAnswer {
  readonly status: number;
  readonly says: string;
}

/** What the sample backend answers to a payload at an attempt (from 1). */
export function answerTo(payload: unknown, attempt: number): SampleAnswer {
  const fields: Record<string, unknown> = payload instanceof Object ? { ...payload } : {};
  const { demo, failures } = fields;
  if (demo === "broken") return { status: 500, says: "this task breaks me every time" };
  if (demo === "invalid") return { status: 422, says: "no attempt will make this task valid" };
  if (demo === "flaky" && attempt <= Number(failures)) {
    return { status: 503, says: `busy: I take this task at attempt ${Number(failures) + 1}` };
  }
  return { status: 200, says: "done" };
}

/** A request to `/process` and what was answered. */
export interface SampleExchange extends SampleAnswer {
  /** The header `Task-Id`; empty when there was none. */
  readonly taskId: string;
  readonly attempt: number;
  /** When the request arrived, milliseconds since the epoch. */
  readonly at: number;
}

/** Where the sample backend listens, and who is told what it answers. */
export interface SampleOptions {
  readonly hostname: string;
  readonly port: number;
  readonly onExchange?: (exchange: SampleExchange) => void;
}

/** Starts the sample backend. @throws when the port is taken */
export function startSampleBackend({ hostname, port, onExchange }: SampleOptions): Deno.HttpServer {
  return Deno.serve({ hostname, port, onListen: () => {} }, async (request) => {
    const route = `${request.method} ${new URL(request.url).pathname}`;
    if (route === "GET /healthz") return Response.json({ status: "ok" });
    if (route !== "POST /process") {
      const says = `this is the sample backend: POST /process or GET /healthz, not ${route}`;
      return Response.json({ says }, { status: 404 });
    }
    const at = Date.now();
    const attempt = Number(request.headers.get("task-attempt") ?? "1");
    const answer = answerTo(await payloadOf(request), attempt);
    const taskId = request.headers.get("task-id") ?? "";
    onExchange?.({ ...answer, taskId, attempt, at });
    return Response.json({ says: answer.says }, { status: answer.status });
  });
}

/** The JSON that was posted; undefined when it is none, which the sample takes as well. */
async function payloadOf(request: Request): Promise<unknown> {
  try {
    return await request.json();
  } catch {
    return undefined;
  }
}

/** Serves until SIGTERM or SIGINT. */
async function main(): Promise<void> {
  const hostname = "0.0.0.0";
  const port = Number(Deno.env.get("PORT") ?? "8090");
  const server = startSampleBackend({
    hostname,
    port,
    onExchange: ({ taskId, attempt, status, says }) =>
      console.log(`task ${taskId} attempt ${attempt}: ${status}, ${says}`),
  });
  console.log(`sample backend on port ${port}`);
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => void server.shutdown().then(() => Deno.exit(0)));
  }
  await server.finished;
}

if (import.meta.main) await main();
