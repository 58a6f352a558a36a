/**
 * How the backend client connects: by HTTP/1.1, with the authority that is to be trusted, and with
 * words for a certificate that can't be.
 *
 * HTTP/2 is not offered, which undici does unless told otherwise: there a request is written while
 * others are under way on the same connection, so that neither CONCURRENCY nor the moment that the
 * limiter counts would be what they are said to be.
 *
 * @module
 */

import { buildConnector } from "undici";
import { explainTls } from "../tls_trouble.ts";
import type { TlsPeer } from "../tls_trouble.ts";

/** What a connection to the backend needs. */
export interface ConnectorOptions {
  readonly url: URL;
  /** Milliseconds. */
  readonly timeoutMs: number;
  /** PEM text of the authority to trust; absent: the public ones. */
  readonly ca?: string;
}

/** Makes connections for undici's pool. */
export function createConnector(
  { url, timeoutMs, ca }: ConnectorOptions,
): buildConnector.connector {
  const connect = buildConnector({
    timeout: timeoutMs,
    allowH2: false,
    rejectUnauthorized: true, // or NODE_TLS_REJECT_UNAUTHORIZED=0 would turn the check off
    ...(ca !== undefined && { ca }),
  });
  const peer: TlsPeer = {
    name: "the backend",
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port) || 443,
    hostVariable: "BACKEND_BASE_URL",
    caVariable: "BACKEND_CA_FILE",
    caGiven: ca !== undefined,
    plain: "BACKEND_BASE_URL to http://… or to its port for TLS",
  };
  return (options, callback) =>
    connect(options, (...result) => {
      const [error] = result;
      if (error === null) callback(...result);
      else explainTls(error, peer).then((explained) => callback(explained, null));
    });
}
