/**
 * The entry of the consumer's Worker. Everything in this thread may reach the broker, the backend
 * and the data directory, and nothing else; `permissions.ts` says what that is.
 *
 * @module
 */

import { systemClock } from "../clock.ts";
import { setUpLogging } from "../logging.ts";
import { startConsumer } from "./consumer.ts";
import type { Consumer } from "./consumer.ts";
import type { FromWorker, ToWorker } from "./messages.ts";

/** The Worker's global scope; Deno's own types describe only the main thread's. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
}

const scope = globalThis as unknown as WorkerScope;
/** Who waits for the main thread's look at the pause; it answers in order. */
const looking: ((paused: boolean) => void)[] = [];
/** Other messages may come while it is being started. */
let consumer: Promise<Consumer> | undefined;

scope.onmessage = ({ data }) => {
  switch (data.type) {
    case "start":
      consumer = start(data);
      return;
    case "pause":
      return void pause(data.paused);
    case "looked":
      return looking.shift()?.(data.paused);
    case "report":
      return void report();
    case "stop":
      return void stop(data.graceMs);
  }
};

type Start = Extract<ToWorker, { type: "start" }>;

async function start({ config, ...context }: Start): Promise<Consumer> {
  await setUpLogging(config.log);
  const onState = (state: Extract<FromWorker, { type: "state" }>["state"]): void =>
    scope.postMessage({ type: "state", state });
  const look = (): Promise<boolean> =>
    new Promise((resolve) => {
      looking.push(resolve);
      scope.postMessage({ type: "look" });
    });
  return startConsumer(config, { ...context, clock: systemClock, onState, look });
}

async function pause(paused: boolean): Promise<void> {
  (await consumer)?.setPaused(paused);
}

async function report(): Promise<void> {
  const report = await (await consumer)?.report();
  if (report !== undefined) scope.postMessage({ type: "report", report });
}

async function stop(graceMs: number): Promise<void> {
  await (await consumer)?.stop(graceMs);
  scope.postMessage({ type: "stopped" });
}
