/**
 * A Worker in the consumer's place that ends in the way its name says.
 *
 * @module
 */

import type { FromWorker, ToWorker } from "../../src/consumer/messages.ts";

/** The ends that there are. */
export type End = "throws" | "rejects" | "obeys" | "hangs";

interface WorkerScope {
  readonly name: End;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
}

const scope = globalThis as unknown as WorkerScope;

scope.onmessage = ({ data }) => {
  if (data.type === "start") start(scope.name);
  else stop(scope.name);
};

function start(end: End): void {
  if (end === "rejects") return void Promise.reject(new Error("rejected"));
  if (end === "throws") throw new Error("thrown");
  scope.postMessage({ type: "state", state: "consuming" });
}

function stop(end: End): void {
  while (end === "hangs");
  scope.postMessage({ type: "stopped" });
}
