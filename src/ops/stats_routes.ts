/**
 * The routes that tell how the relay stands: `/stats` for people and programs, `/events` for those
 * who watch, `/metrics` for Prometheus.
 *
 * @module
 */

import type { Clock } from "../clock.ts";
import { Events } from "./events.ts";
import type { Monitor } from "./monitor.ts";
import { EXPOSITION_TYPE } from "./tally.ts";

/** The routes, by what they do. */
export interface StatsRoutes {
  stats(): Promise<Response>;
  events(request: Request): Promise<Response>;
  metrics(): Promise<Response>;
  /** Ends the streams of events at once. */
  close(): void;
}

/** Makes the routes. */
export function createStatsRoutes(
  { monitor, clock }: { readonly monitor: Monitor; readonly clock: Clock },
): StatsRoutes {
  const events = new Events({ look: async () => (await monitor.view()).stats, clock });
  monitor.onSample = (sample) => events.sample(sample);
  return {
    async stats(): Promise<Response> {
      const { stats } = await monitor.view();
      return answer(JSON.stringify(stats), "application/json");
    },
    events: (request) => events.open(request),
    async metrics(): Promise<Response> {
      const { metrics } = await monitor.view();
      return answer(await metrics(), EXPOSITION_TYPE);
    },
    close: () => events.close(),
  };
}

function answer(body: string, type: string): Response {
  return new Response(body, {
    headers: {
      "content-type": type,
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    },
  });
}
