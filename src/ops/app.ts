/**
 * The operators' routes, and what is answered beside them.
 *
 * What this file keeps true: nothing is answered past the guard, not even that a path isn't there. But
 * with a token the dashboard's own files are, which tell nothing: a browser that opens a page can't
 * send the token, so the page asks for it.
 *
 * @module
 */

import { Hono } from "hono";
import { getLogger } from "@logtape/logtape";
import { discardBody, refuse } from "../http/answers.ts";
import { problemResponse } from "../http/problem.ts";
import { SHUTTING_DOWN } from "../http/refusals.ts";
import type { HttpApp } from "../http/server.ts";
import { createAssets } from "./dashboard/assets.ts";
import { createFailedRoutes } from "./failed_routes.ts";
import { createGuard } from "./guard.ts";
import type { Monitor } from "./monitor.ts";
import { setPaused } from "./pause_routes.ts";
import type { PauseControl } from "./ports.ts";
import type { Redriver } from "./redrive.ts";
import { createStatsRoutes } from "./stats_routes.ts";

const log = getLogger(["relay", "ops"]);

/** What {@link createOps} works with. */
export interface OpsOptions extends Redriver {
  readonly monitor: Monitor;
  readonly pause: PauseControl;
  /** When given, everything needs it as a bearer token; else the guard of the loopback holds. */
  readonly token?: string;
  /** The port that is listened on. */
  readonly port: () => number;
}

/** The methods of each path that exists; everything else is 404. */
const ALLOWED: readonly (readonly [path: RegExp, methods: string])[] = [
  [/^\/(stats|events|metrics)$/, "GET, HEAD"],
  [/^\/(pause|resume)$/, "POST"],
  [/^\/(dashboard\/\w+\.(ts|css))?$/, "GET, HEAD"],
  [/^\/failed$/, "GET, HEAD, DELETE"],
  [/^\/failed\/redrive$/, "POST"],
  [/^\/failed\/[^/]+$/, "GET, HEAD, DELETE"],
];

/** Makes the operators' HTTP. */
export function createOps(options: OpsOptions): HttpApp {
  const guard = createGuard(options.token);
  const failed = createFailedRoutes(options);
  const stats = createStatsRoutes(options);
  const assets = createAssets();
  let draining = false;

  const app = new Hono();
  app.use(async (c, next): Promise<Response | void> => {
    const request = c.req.raw;
    const asset = ["GET", "HEAD"].includes(request.method) ? assets(c.req.path) : undefined;
    const isOpen = asset !== undefined && options.token !== undefined;
    const refusal = (isOpen ? undefined : guard(request.headers, options.port())) ??
      (draining ? SHUTTING_DOWN : undefined);
    return refusal === undefined ? asset ?? await next() : refuse(request, refusal);
  });
  app.get("/stats", () => stats.stats());
  app.get("/events", (c) => stats.events(c.req.raw));
  app.get("/metrics", () => stats.metrics());
  app.post("/pause", (c) => setPaused(c.req.raw, options.pause, true));
  app.post("/resume", (c) => setPaused(c.req.raw, options.pause, false));
  app.get("/failed", (c) => failed.list(c.req.raw));
  app.delete("/failed", (c) => failed.removeAll(c.req.raw));
  app.post("/failed/redrive", (c) => failed.redrive(c.req.raw));
  app.all("/failed/redrive", (c) => noSuchRoute(c.req.raw, c.req.path));
  app.get("/failed/:id", (c) => failed.show(c.req.raw, c.req.param("id")));
  app.delete("/failed/:id", (c) => failed.remove(c.req.raw, c.req.param("id")));
  app.notFound((c) => noSuchRoute(c.req.raw, c.req.path));
  app.onError((error, c) => {
    log.error("A request failed unexpectedly: {method} {path}", {
      method: c.req.method,
      path: c.req.path,
      error,
    });
    discardBody(c.req.raw);
    return problemResponse({ status: 500, detail: "The relay failed unexpectedly; see its log." });
  });

  return {
    fetch: (request) => app.fetch(request),
    drain(): void {
      draining = true;
      failed.close();
      stats.close();
    },
  };
}

function noSuchRoute(request: Request, path: string): Response {
  const [, allow] = ALLOWED.find(([pattern]) => pattern.test(path)) ?? [];
  if (allow === undefined) {
    return refuse(request, {
      status: 404,
      detail: "There is nothing at this path. The dashboard is at /, failed tasks are at /failed.",
    });
  }
  return refuse(request, {
    status: 405,
    detail: `This path does not take the method of the request. Use ${allow}.`,
    headers: { allow },
  });
}
