/**
 * Certificates for tests of TLS, good ones and bad ones, made when they are needed: no key lies in
 * the repository, none expires by itself, and no openssl has to be installed.
 *
 * Written out in DER (X.690, RFC 5280) because WebCrypto makes keys and signatures, but no
 * certificates.
 *
 * @module
 */

/** PEM texts, as servers and clients want them; the certificate is its own authority. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** For whom a certificate is, and when. */
export interface CertificateOptions {
  /** The DNS names that it is for; `localhost`, and with it 127.0.0.1, unless given. */
  readonly names?: readonly string[];
  /** Milliseconds since the epoch; from yesterday for a month unless given. */
  readonly validFrom?: number;
  readonly validUntil?: number;
}

/** An authority whose certificate is trusted by whoever is told to. */
export interface Authority {
  /** Its own certificate, PEM. */
  readonly cert: string;
  /** Makes a certificate that it vouches for. */
  issue(options?: CertificateOptions): Promise<Certificate>;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const ECDSA_SHA256 = "1.2.840.10045.4.3.2";
const COMMON_NAME = "2.5.4.3";
const SUBJECT_ALT_NAME = "2.5.29.17";
const BASIC_CONSTRAINTS = "2.5.29.19";
const DAY_MS = 86_400_000;

/** A certificate for `localhost` and 127.0.0.1 unless `options` say otherwise. */
export async function selfSignedCertificate(
  options: CertificateOptions = {},
): Promise<Certificate> {
  const keys = await newKeys();
  const extension = namesExtension(options);
  const name = options.names?.[0] ?? "localhost";
  const statement = await toBeSigned({ ...options, subject: name, issuer: name, keys, extension });
  return { cert: await signed(statement, keys), key: await privatePem(keys) };
}

/** A new authority, which nobody knows yet. */
export async function createAuthority(): Promise<Authority> {
  const issuer = `authority ${crypto.randomUUID()}`;
  const own = await newKeys();
  const isAuthority = sequence(der(0x01, [0xff]));
  const extension = sequence(objectId(BASIC_CONSTRAINTS), der(0x04, isAuthority));
  const statement = await toBeSigned({ subject: issuer, issuer, keys: own, extension });
  return {
    cert: await signed(statement, own),
    async issue(options = {}): Promise<Certificate> {
      const keys = await newKeys();
      const subject = options.names?.[0] ?? "localhost";
      const extension = namesExtension(options);
      const statement = await toBeSigned({ ...options, subject, issuer, keys, extension });
      return { cert: await signed(statement, own), key: await privatePem(keys) };
    },
  };
}

type Bytes = Uint8Array<ArrayBuffer>;

const SIGNATURE_ALGORITHM: Bytes = sequence(objectId(ECDSA_SHA256));

function newKeys(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

async function privatePem(keys: CryptoKeyPair): Promise<string> {
  return pem(
    "PRIVATE KEY",
    new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey)),
  );
}

/** The certificate, PEM: the statement with the signature of whoever makes it. */
async function signed(statement: Bytes, { privateKey }: CryptoKeyPair): Promise<string> {
  const raw = new Uint8Array(await crypto.subtle.sign(ALGORITHM, privateKey, statement));
  const half = raw.length / 2;
  const signature = sequence(integer(raw.subarray(0, half)), integer(raw.subarray(half)));
  const certificate = sequence(statement, SIGNATURE_ALGORITHM, der(0x03, [0], signature));
  return pem("CERTIFICATE", certificate);
}

async function toBeSigned({ subject, issuer, keys, extension, validFrom, validUntil }: {
  readonly subject: string;
  readonly issuer: string;
  /** Those of the subject. */
  readonly keys: CryptoKeyPair;
  readonly extension: Bytes;
  readonly validFrom?: number;
  readonly validUntil?: number;
}): Promise<Bytes> {
  const from = validFrom ?? Date.now() - DAY_MS;
  const until = validUntil ?? Date.now() + 30 * DAY_MS;
  return sequence(
    der(0xa0, integer([2])),
    integer(crypto.getRandomValues(new Uint8Array(8))),
    SIGNATURE_ALGORITHM,
    commonName(issuer),
    sequence(time(from), time(until)),
    commonName(subject),
    new Uint8Array(await crypto.subtle.exportKey("spki", keys.publicKey)),
    der(0xa3, sequence(extension)),
  );
}

function namesExtension({ names = ["localhost"] }: CertificateOptions): Bytes {
  const dnsNames = names.map((name) => der(0x82, new TextEncoder().encode(name)));
  const address = names.includes("localhost") ? [der(0x87, [127, 0, 0, 1])] : [];
  return sequence(
    objectId(SUBJECT_ALT_NAME),
    der(0x04, sequence(...dnsNames, ...address)),
  );
}

function commonName(name: string): Bytes {
  const text = der(0x0c, new TextEncoder().encode(name));
  return sequence(der(0x31, sequence(objectId(COMMON_NAME), text)));
}

/** A value with its tag and its length. */
function der(tag: number, ...content: readonly (Uint8Array | readonly number[])[]): Bytes {
  const value = content.flatMap((part) => [...part]);
  const { length } = value;
  if (length < 0x80) return new Uint8Array([tag, length, ...value]);
  if (length < 0x100) return new Uint8Array([tag, 0x81, length, ...value]);
  return new Uint8Array([tag, 0x82, length >> 8, length & 0xff, ...value]);
}

function sequence(...content: readonly Uint8Array[]): Bytes {
  return der(0x30, ...content);
}

/** A positive integer in as few bytes as it takes. */
function integer(bytes: Uint8Array | readonly number[]): Bytes {
  const significant = [...bytes];
  while (significant.length > 1 && significant[0] === 0) significant.shift();
  const negative = (significant[0] ?? 0) >= 0x80;
  return der(0x02, negative ? [0, ...significant] : significant);
}

function objectId(dotted: string): Bytes {
  const [first = 0, second = 0, ...others] = dotted.split(".").map(Number);
  return der(0x06, [first * 40 + second], ...others.map(base128));
}

/** Seven bits a byte, highest first; the last byte alone has its top bit clear. */
function base128(value: number): number[] {
  const bytes = [value & 0x7f];
  for (let rest = value >> 7; rest > 0; rest >>= 7) bytes.unshift((rest & 0x7f) | 0x80);
  return bytes;
}

/** As UTCTime: YYMMDDHHMMSSZ. */
function time(ms: number): Bytes {
  const digits = new Date(ms).toISOString().replace(/\D/g, "").slice(2, 14);
  return der(0x17, new TextEncoder().encode(`${digits}Z`));
}

function pem(label: string, bytes: Uint8Array): string {
  const lines = bytes.toBase64().replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
}
