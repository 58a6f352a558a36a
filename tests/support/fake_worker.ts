/**
 * A Worker without a thread: a test says when it dies, and reads what it was told.
 *
 * @module
 */

import type { FromWorker, ToWorker } from "../../src/consumer/messages.ts";

/** Stands where the consumer's Worker would. */
export class FakeWorker extends EventTarget implements Worker {
  onmessage: Worker["onmessage"] = null;
  onmessageerror: Worker["onmessageerror"] = null;
  onerror: Worker["onerror"] = null;
  readonly told: ToWorker[] = [];
  terminated = false;

  postMessage(message: ToWorker): void {
    this.told.push(message);
  }

  terminate(): void {
    this.terminated = true;
  }

  /** The Worker says something to the main thread. */
  say(message: FromWorker): void {
    this.onmessage?.(new MessageEvent("message", { data: message }));
  }

  /** An error that nothing caught; true when it does not end the process. */
  die(): boolean {
    const event = new ErrorEvent("error", { message: "Uncaught Error: died", cancelable: true });
    this.onerror?.(event);
    return event.defaultPrevented;
  }
}
