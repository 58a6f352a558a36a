/**
 * Why a TLS connection failed, in words that say what to do about it.
 *
 * Measured with Deno 2.9.6: node:tls has one code, UNABLE_TO_VERIFY_LEAF_SIGNATURE, for a certificate
 * of an unknown authority and for one that has expired, and a refused one can't be looked at. So
 * after a refusal the certificate is fetched once more, by a connection on which nothing is sent.
 *
 * @module
 */

import { isIP } from "node:net";
import { connect } from "node:tls";

/** Whom the connection was to, and what people set about it. */
export interface TlsPeer {
  /** As it begins a sentence. */
  readonly name: string;
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
  /** The variable that holds `host`. */
  readonly hostVariable: string;
  readonly caVariable: string;
  /** Whether that one is set. */
  readonly caGiven: boolean;
  /** What to set if the peer speaks no TLS, completing "set …". */
  readonly plain: string;
}

/** From when until when a certificate is valid, milliseconds since the epoch. */
export interface Validity {
  readonly from: number;
  readonly until: number;
}

/** How long the second look at a certificate may take, milliseconds. */
const LOOK_DEADLINE_MS = 2_000;

/** The failure of a chain of certificates, one of node's many codes for it. */
const UNTRUSTED = /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_)/;
const WRONG_HOST = "ERR_TLS_CERT_ALTNAME_INVALID";
const NO_TLS = "ERR_SSL_WRONG_VERSION_NUMBER";

/** `error` with a message that says what to do, if TLS is what failed; else `error` as it is. */
export async function explainTls(error: Error, peer: TlsPeer): Promise<Error> {
  const code = codeOf(error);
  const validity = UNTRUSTED.test(code) ? await validityAt(peer) : undefined;
  const advice = tlsAdvice(code, peer, validity, Date.now());
  if (advice === undefined) return error;
  return Object.assign(new Error(`${advice} (${error.message})`, { cause: error }), { code });
}

/** What to tell people about a failure with this code; undefined if it is not one of TLS. Pure. */
export function tlsAdvice(
  code: string,
  peer: TlsPeer,
  validity: Validity | undefined,
  now: number,
): string | undefined {
  const { name, host, port } = peer;
  if (code === NO_TLS) return `${name} does not speak TLS at port ${port}: set ${peer.plain}`;
  if (code === WRONG_HOST) {
    return `${name}'s certificate is not for ${host}: set ${peer.hostVariable} to a host that it is for`;
  }
  if (UNTRUSTED.test(code)) return certificateAdvice(peer, validity, now);
  return code.startsWith("ERR_SSL_") ? `the TLS handshake with ${name} failed` : undefined;
}

function certificateAdvice(
  { name, caVariable, caGiven }: TlsPeer,
  validity: Validity | undefined,
  now: number,
): string {
  if (validity !== undefined && validity.until < now) {
    return `${name}'s certificate expired on ${timeText(validity.until)}: it must be renewed there`;
  }
  if (validity !== undefined && validity.from > now) {
    const from = timeText(validity.from);
    return `${name}'s certificate is not valid before ${from}: compare the clocks of both machines`;
  }
  return caGiven
    ? `${name}'s certificate is not signed by an authority in ${caVariable}: put the right one there`
    : `${name}'s certificate is not signed by a known authority: set ${caVariable}`;
}

/** Looks at the peer's certificate; undefined when it shows none in time. */
function validityAt({ host, port }: TlsPeer): Promise<Validity | undefined> {
  const { promise, resolve } = Promise.withResolvers<Validity | undefined>();
  const servername = isIP(host) === 0 ? { servername: host } : {};
  // The certificate is not trusted by this, it is only read, and the connection ends at once.
  const socket = connect({ host, port, ...servername, rejectUnauthorized: false });
  socket.setTimeout(LOOK_DEADLINE_MS, () => socket.destroy());
  socket.once("secureConnect", () => {
    const { valid_from, valid_to } = socket.getPeerCertificate();
    resolve({ from: Date.parse(valid_from), until: Date.parse(valid_to) });
    socket.destroy();
  });
  socket.on("error", () => {}); // `close` follows
  socket.once("close", () => resolve(undefined));
  return promise;
}

function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
