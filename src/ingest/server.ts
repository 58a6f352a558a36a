/**
 * The clients' listener.
 *
 * @module
 */
import { type HttpServer, startServer } from "../http/server.ts";
import type { Ingest } from "./app.ts";

/** Where clients are listened for, and by what. */
export interface IngestListenOptions {
  /** A name or an address; IPv6 with or without brackets. */
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly ingest: Ingest;
}

/**
 * Listens for clients.
 *
 * @throws Error when the address cannot be listened on; the message names it and the way out.
 */
export function startIngest({ host, port, ingest }: IngestListenOptions): HttpServer {
  const audience = { name: "clients", variables: "INBOUND" };
  return startServer({ host, port, app: ingest, audience });
}
