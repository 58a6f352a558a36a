/**
 * Where the tests find their RabbitMQ, and names that no two tests share.
 *
 * The test runner brings a broker up (or takes the one at RABBIT_HOST) and tells the tests through
 * the same variables that the relay itself reads. Without them a test fails: it never skips, and it
 * never reaches for whatever happens to listen on the default port.
 *
 * @module
 */

/** A RabbitMQ as a client needs to know it. */
export interface RabbitAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** `/` unless given. */
  readonly vhost?: string;
  /** Plain TCP unless given; `ca` is PEM. */
  readonly tls?: { readonly ca?: string };
}

/** The broker of this test run. @throws when the run was started without one */
export function rabbitAddress(): RabbitAddress {
  const host = Deno.env.get("RABBIT_HOST");
  const port = Number(Deno.env.get("RABBIT_PORT") ?? "5672");
  if (!host) {
    throw new Error(
      "RABBIT_HOST is not set, so this test has no RabbitMQ: run `deno task test`, which brings " +
        "one up, or set RABBIT_HOST to one that tests may use",
    );
  }
  return {
    host,
    port,
    user: Deno.env.get("RABBIT_USER") ?? "guest",
    password: Deno.env.get("RABBIT_PASSWORD") ?? "guest",
  };
}

/** A QUEUE_PREFIX that no other test has, also when runs share one broker. */
export function uniquePrefix(): string {
  return `test-${crypto.randomUUID().slice(0, 13)}`;
}
