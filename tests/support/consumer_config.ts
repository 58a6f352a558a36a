/**
 * A configuration of the consumer for tests that need one and reach nobody by it.
 *
 * @module
 */

import type { ConsumerConfig } from "../../src/consumer/consumer.ts";
import { loadConfig } from "../../src/config.ts";

/** What the environment's defaults give, changed by `environment`. */
export function aConsumerConfig(environment: Record<string, string> = {}): ConsumerConfig {
  const config = loadConfig({ RABBIT_HOST: "127.0.0.1", ...environment }, () => "");
  const { inbound: _, shutdownGraceMs: __, ...shared } = config;
  return { ...shared, backend: { ...config.backend, url: config.backend.url.href } };
}
