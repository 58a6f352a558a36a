/**
 * A listener: sockets for an {@link HttpApp}, and a close that is bounded.
 *
 * `Deno.serve`'s own `shutdown()` waits for half-sent bodies as long as their clients care to hold
 * them, and after it the abort signal can no longer end them (it throws). So draining is done here:
 * first nothing new is taken, then the requests in flight are awaited, and what is left of the
 * connections after that is cut. And where `Deno.serve` gives its listener up for good, as it does
 * the first time the process is out of file descriptors, it is replaced by a new one.
 *
 * @module
 */
import { getLogger } from "@logtape/logtape";
import { problemResponse } from "./problem.ts";

const log = getLogger(["relay", "http"]);

/** What answers requests, apart from the sockets. */
export interface HttpApp {
  /** Answers one request; never rejects. */
  fetch(request: Request): Response | Promise<Response>;
  /** Takes nothing new from now on, and ends what waits for its client. Idempotent. */
  drain(): void;
}

/** Who is listened for, as an error that can't be helped here has to say it. */
export interface Audience {
  /** For instance `clients`. */
  readonly name: string;
  /** What the variables of the address begin with, for instance `INBOUND`. */
  readonly variables: string;
}

/** What {@link startServer} needs. */
export interface ListenOptions {
  /** A name or an address; IPv6 with or without brackets. */
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly app: HttpApp;
  readonly audience: Audience;
}

/** A listener that is up. */
export interface HttpServer {
  /** The address that is listened on, IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  /**
   * Drains and stops. Nothing new is taken from now on; requests in flight get their answers if
   * these are ready within `graceMs` milliseconds; then all connections are closed. Never rejects;
   * idempotent: the first call's grace counts.
   */
  close(graceMs: number): Promise<void>;
}

/**
 * Listens.
 *
 * @throws Error when the address cannot be listened on; the message names it and the way out.
 */
export function startServer({ host, port, app, audience }: ListenOptions): HttpServer {
  let inFlight = 0;
  let idle: (() => void) | undefined;
  let closing: Promise<void> | undefined;
  let relistenTimer: ReturnType<typeof setTimeout> | undefined;

  async function handle(request: Request): Promise<Response> {
    inFlight++;
    try {
      return await app.fetch(request);
    } finally {
      if (--inFlight === 0) idle?.();
    }
  }

  const first = listen({ host, port, audience }, handle);
  const listeners = [first];
  const address = first.server.addr;

  function replaceWhenLost({ server }: Listener): void {
    server.finished.catch((error) => {
      log.error("listener failed; opening it again", { error });
      if (closing === undefined) relistenTimer = setTimeout(relisten, RELISTEN_MS);
    });
  }

  function relisten(): void {
    try {
      const { hostname: host, port } = address;
      const listener = listen({ host, port, audience }, handle);
      listeners.push(listener);
      replaceWhenLost(listener);
    } catch (error) {
      log.error("listener could not be opened again", { error });
      relistenTimer = setTimeout(relisten, RELISTEN_MS);
    }
  }

  async function drainAndStop(graceMs: number): Promise<void> {
    clearTimeout(relistenTimer);
    app.drain();
    if (inFlight > 0) await withDeadline(new Promise<void>((resolve) => idle = resolve), graceMs);
    if (inFlight > 0) {
      log.warning("requests cut: not answered within the grace", {
        count: inFlight,
        graceMs,
      });
    }
    // The last answers are with the server but not yet with the kernel; a turn takes them there.
    await new Promise((resolve) => setTimeout(resolve, 0));
    // A listener that was lost still serves the connections it had.
    for (const { connections } of listeners) connections.abort();
    await Promise.allSettled(listeners.map(({ server }) => server.finished));
  }

  replaceWhenLost(first);
  return {
    host: address.hostname,
    port: address.port,
    close: (graceMs) => closing ??= drainAndStop(graceMs),
  };
}

/** Milliseconds before a lost listener is opened again: long enough to not spin, short for clients. */
const RELISTEN_MS = 250;

interface Listener {
  readonly server: Deno.HttpServer<Deno.NetAddr>;
  /** Aborting it closes the listener and cuts its connections. */
  readonly connections: AbortController;
}

function listen(
  { host, port, audience }: Omit<ListenOptions, "app">,
  handler: (request: Request) => Promise<Response>,
): Listener {
  const hostname = host.replace(/^\[(.*)\]$/, "$1");
  const connections = new AbortController();
  const { signal } = connections;
  try {
    // Without onListen and onError Deno.serve writes to the console by itself.
    const options = { hostname, port, signal, onListen: () => {}, onError };
    return { server: Deno.serve(options, handler), connections };
  } catch (cause) {
    const place = `${audience.name} on ${host} port ${port}`;
    const reason = reasonOf(cause, audience.variables);
    throw new Error(`Cannot listen for ${place}: ${reason}`, { cause });
  }
}

function onError(error: unknown): Response {
  log.error("request failed outside its handler", { error });
  return problemResponse({
    status: 500,
    detail: "The relay failed unexpectedly. Send the request again.",
  });
}

function reasonOf(cause: unknown, variables: string): string {
  if (cause instanceof Deno.errors.AddrInUse) {
    return `the port is in use. Stop what listens there or set ${variables}_PORT to another one.`;
  }
  if (cause instanceof Deno.errors.AddrNotAvailable) {
    return `this machine has no such address. Set ${variables}_HOST to one of its own, or to 0.0.0.0.`;
  }
  if (cause instanceof Deno.errors.PermissionDenied) {
    return `not permitted. Set ${variables}_PORT to one above 1023, or grant the right to bind it.`;
  }
  const text = cause instanceof Error ? cause.message : String(cause);
  return `${text}. Check ${variables}_HOST and ${variables}_PORT.`;
}

/** Resolves with `done`, or after `ms` milliseconds without it. */
async function withDeadline(done: Promise<void>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<void>((resolve) => timer = setTimeout(resolve, ms));
  await Promise.race([done, deadline]);
  clearTimeout(timer);
}
