/**
 * The operators' listener, apart from the clients' one.
 *
 * @module
 */

import { type HttpServer, startServer } from "../http/server.ts";
import { createOps, type OpsOptions } from "./app.ts";

/** Where operators are listened for, and what is behind it. */
export interface OpsListenOptions extends Omit<OpsOptions, "port"> {
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
}

/**
 * Listens for operators.
 *
 * @throws Error when the address cannot be listened on; the message names it and the way out.
 */
export function startOps({ host, port, ...options }: OpsListenOptions): HttpServer {
  const app = createOps({ ...options, port: () => server.port });
  const audience = { name: "operators", variables: "OPS" };
  const server = startServer({ host, port, app, audience });
  return server;
}
