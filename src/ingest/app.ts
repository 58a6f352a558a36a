/**
 * The clients' routes, and what is answered beside them.
 *
 * What this file keeps true: every refusal is a problem with a detail that says what to do; neither
 * payload nor token is ever logged or echoed.
 *
 * @module
 */
import { Hono } from "hono";
import { getLogger } from "@logtape/logtape";
import { discardBody, refuse } from "../http/answers.ts";
import { createTokenCheck } from "../http/auth.ts";
import type { HttpApp } from "../http/server.ts";
import type { Health } from "./ports.ts";
import { createPostRoutes, type PostOptions } from "./posts.ts";
import { type Problem, problemResponse } from "../http/problem.ts";
import { UNEXPECTED } from "./refusals.ts";
import { createStatusRoutes, type StatusOptions } from "./status.ts";

const log = getLogger(["relay", "ingest"]);

/** What {@link createIngest} works with. */
export interface IngestOptions extends PostOptions, StatusOptions {
  /** The state of the relay at this moment. */
  readonly health: () => Health;
  /** When given, `/queue/*` needs it as a bearer token. */
  readonly token?: string;
}

/**
 * The clients' HTTP, apart from the sockets. Drained, it takes no more tasks: bodies that are still
 * arriving and posts to come are answered 503, what is with the publisher is finished.
 */
export type Ingest = HttpApp;

/** The methods of each path that exists; everything else is 404. */
const ALLOWED: readonly (readonly [path: RegExp, methods: string])[] = [
  [/^\/queue\/tasks(\/batch)?$/, "POST"],
  [/^\/queue\/tasks\/[^/]+$/, "GET, HEAD, DELETE"],
  [/^\/(healthz|readyz)$/, "GET, HEAD"],
];

/** Makes the clients' HTTP. Call `drain()` in the end: it also stops the timer of the deadline. */
export function createIngest(options: IngestOptions): Ingest {
  const { health } = options;
  const posts = createPostRoutes(options);
  const tasks = createStatusRoutes(options);
  let draining = false;

  function ready(): Response {
    const { ready, parts } = health();
    if (draining) return healthResponse(503, { ...parts, ingest: "shutting down" });
    return healthResponse(ready ? 200 : 503, parts);
  }

  const app = new Hono();
  if (options.token !== undefined) {
    const authorized = createTokenCheck(options.token);
    app.use("/queue/*", async (c, next): Promise<Response | void> => {
      const granted = authorized(c.req.raw.headers.get("authorization"));
      if (granted) return await next();
      if (c.req.method === "POST") options.meter?.rejected(NO_TOKEN.status, 1);
      return refuse(c.req.raw, NO_TOKEN);
    });
  }
  // One handler for a route and no middleware: Hono then calls it directly. That is why 405 is
  // decided in notFound and not by a second route on the same path.
  app.post("/queue/tasks", (c) => posts.task(c.req.raw));
  app.post("/queue/tasks/batch", (c) => posts.batch(c.req.raw));
  app.all("/queue/tasks/batch", (c) => noSuchRoute(c.req.raw, c.req.path));
  app.get("/queue/tasks/:id", (c) => tasks.get(c.req.raw, c.req.param("id")));
  app.delete("/queue/tasks/:id", (c) => tasks.cancel(c.req.raw, c.req.param("id")));
  app.get("/healthz", () => healthResponse(200, health().parts));
  app.get("/readyz", ready);
  app.notFound((c) => noSuchRoute(c.req.raw, c.req.path));
  app.onError((error, c) => {
    log.error("A request failed unexpectedly: {method} {path}", {
      method: c.req.method,
      path: c.req.path,
      error,
    });
    discardBody(c.req.raw);
    return problemResponse(UNEXPECTED);
  });

  return {
    fetch: (request) => app.fetch(request),
    drain(): void {
      draining = true;
      posts.close();
    },
  };
}

const NO_TOKEN: Problem = {
  status: 401,
  detail: "This needs the relay's token. Send it as Authorization: Bearer TOKEN.",
  headers: { "www-authenticate": "Bearer" },
};

function noSuchRoute(request: Request, path: string): Response {
  const [, allow] = ALLOWED.find(([pattern]) => pattern.test(path)) ?? [];
  if (allow === undefined) {
    return refuse(request, {
      status: 404,
      detail: "There is nothing at this path. Tasks are posted to /queue/tasks.",
    });
  }
  if (request.method === "OPTIONS") {
    discardBody(request);
    return new Response(null, { status: 204, headers: { allow } });
  }
  return refuse(request, {
    status: 405,
    detail: `This path does not take the method of the request. Use ${allow}.`,
    headers: { allow },
  });
}

function healthResponse(status: 200 | 503, parts: Health["parts"]): Response {
  const isDegraded = Object.values(parts).some((state) => state.startsWith("unavailable"));
  const well = isDegraded ? "degraded" : "ok";
  const body = { status: status === 200 ? well : "unavailable", ...parts };
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });
}
