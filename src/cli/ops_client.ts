/**
 * The operators' listener of a running relay, asked by the commands.
 *
 * @module
 */

import type { OpsValues } from "../config.ts";
import { messageOf } from "../errors.ts";
import { CommandError, EXIT } from "./usage.ts";

const NO_RELAY = "did not answer as a relay's operators' listener does";

/** Where the listener is, and what it is sent. */
export interface OpsAddress {
  readonly url: URL;
  readonly token?: string | undefined;
}

/**
 * Where to ask: `url` when it is given, else where a relay with this configuration listens. One that
 * listens on all addresses is asked on the loopback.
 *
 * @throws {CommandError} with status 2 when there is no such place
 */
export function opsAddress(ops: OpsValues, url: string | undefined): OpsAddress {
  const { token, port } = ops;
  if (url !== undefined) {
    if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
      throw new CommandError(`--url ${url} is no URL such as http://127.0.0.1:8081`, EXIT.usage);
    }
    return { url: new URL(url), token };
  }
  if (port === "off" || port === 0) {
    const problem = `OPS_PORT=${port} does not say where the listener is; give it with --url`;
    throw new CommandError(problem, EXIT.usage);
  }
  const host = ops.host === "0.0.0.0" ? "127.0.0.1" : ops.host === "::" ? "::1" : ops.host;
  const name = host.includes(":") ? `[${host.replace(/^\[|\]$/g, "")}]` : host;
  return { url: new URL(`http://${name}:${port}`), token };
}

/** Asks the listener. */
export class OpsClient {
  readonly #address: OpsAddress;

  constructor(address: OpsAddress) {
    this.#address = address;
  }

  /** The JSON of an answer. @throws {CommandError} unless it is a success */
  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const { url, token } = this.#address;
    const headers = new Headers();
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const init = { method, headers, redirect: "error" as const };
    const answer = await fetch(
      new URL(path, url),
      body === undefined ? init : { ...init, body: JSON.stringify(body) },
    ).catch((error) => {
      const where = `${url.origin} can't be reached: ${messageOf(error)}`;
      const way = "Is the relay running, and is this where its operators' listener is?";
      throw new CommandError(`${where}. ${way}`, EXIT.refused);
    });
    if (!answer.ok) throw await refusalOf(answer, url);
    return await answer.json().catch(() => {
      throw new CommandError(`${url.origin} ${NO_RELAY}`, EXIT.refused);
    });
  }
}

async function refusalOf(answer: Response, { origin }: URL): Promise<CommandError> {
  const problem = await answer.json().catch(() => ({}));
  if (typeof problem.detail !== "string") {
    return new CommandError(`${origin} answered ${answer.status} and ${NO_RELAY}`, EXIT.refused);
  }
  switch (answer.status) {
    case 400:
      return new CommandError(problem.detail, EXIT.usage);
    case 404:
      return new CommandError(problem.detail, EXIT.notFound);
    default:
      return new CommandError(problem.detail, EXIT.refused);
  }
}
