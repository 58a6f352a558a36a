/**
 * Which task an acknowledgement is about, so that a fault can strike between a backend's answer and
 * the acknowledgement of that very task.
 *
 * An acknowledgement names a delivery by its channel and tag alone; the id stands in the content
 * header that came with the delivery. Ids are taken for UUIDs, which the keys of tests must not be.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { PassingFrame } from "./tcp_relay.ts";

/** Of a method frame: its head, and the numbers of class and method. */
const ARGUMENTS = 7 + 4;

const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** Reads all frames of a relay's connections in order; see {@link readAcknowledgements}. */
export type AcknowledgementReader = (frame: PassingFrame) => string | undefined;

/** Makes a reader that gives the id of the task when the consumer acknowledges its delivery. */
export function readAcknowledgements(): AcknowledgementReader {
  /** By connection and channel: the tag whose content header comes next. */
  const announced = new Map<string, bigint>();
  const ids = new Map<string, string>();
  return ({ name, direction, connectionId, channel, bytes }) => {
    const where = `${connectionId}/${channel}`;
    const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (name === "basic.deliver") {
      const tagAt = ARGUMENTS + 1 + frame.readUInt8(ARGUMENTS); // past the consumer's own tag
      announced.set(where, frame.readBigUInt64BE(tagAt));
    } else if (name === "header" && direction === "toClient") {
      const id = ID.exec(frame.toString("latin1"))?.[0];
      if (id !== undefined) ids.set(`${where}/${announced.get(where)}`, id);
    } else if (name === "basic.ack" && direction === "toServer") {
      return ids.get(`${where}/${frame.readBigUInt64BE(ARGUMENTS)}`);
    }
    return undefined;
  };
}

/** Whether a frame publishes a task, and not the message by which a relay looks whether it is paused. */
export function publishesTask({ name, bytes }: PassingFrame): boolean {
  return name === "basic.publish" && !Buffer.from(bytes).toString("latin1").includes(".paused");
}
