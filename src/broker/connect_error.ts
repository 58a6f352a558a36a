/**
 * Why the broker can't be connected to, in words that say what to set.
 *
 * @module
 */

import type { Config } from "../config.ts";
import { explainTls } from "../tls_trouble.ts";

/** `error` as it is, or with a message that says more where TLS is or should be in play. */
export async function explainConnect(error: Error, rabbit: Config["rabbit"]): Promise<Error> {
  if (rabbit.tls !== undefined) {
    return await explainTls(error, {
      name: "RabbitMQ",
      host: rabbit.host,
      port: rabbit.port,
      hostVariable: "RABBIT_HOST",
      caVariable: "RABBIT_CA_FILE",
      caGiven: rabbit.tls.ca !== undefined,
      plain: "RABBIT_PORT to its port for TLS, which is usually 5671, or RABBIT_TLS=false",
    });
  }
  // amqplib's words for a peer that hangs up on the first frame, as one that expects TLS does.
  if (!/^Socket closed abruptly/.test(error.message)) return error;
  const advice = `RabbitMQ hung up before AMQP was agreed on: if it expects TLS at port ` +
    `${rabbit.port}, set RABBIT_TLS=true`;
  return new Error(`${advice} (${error.message})`, { cause: error });
}
