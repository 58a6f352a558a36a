/**
 * AMQP 0-9-1 frames out of a byte stream, so that a fault can strike exactly before or after a
 * named step of the protocol: a publish, its confirm, a delivery, an acknowledgement.
 *
 * Knows the framing and the names of the methods that tests point at; field values stay bytes.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/** One whole frame, or the eight bytes with which a client greets (`protocol`). */
export interface Frame {
  readonly type: "protocol" | "method" | "header" | "body" | "heartbeat";
  readonly channel: number;
  /**
   * For a method its name as in the specification, e.g. `basic.publish`, or `CLASS.METHOD` in
   * numbers for one that is not in the table below; for other frames the type.
   */
  readonly name: string;
  /** The frame as it was on the wire. */
  readonly bytes: Uint8Array;
}

const METHODS: Readonly<Record<string, string>> = {
  "10.10": "connection.start",
  "10.11": "connection.start-ok",
  "10.30": "connection.tune",
  "10.31": "connection.tune-ok",
  "10.40": "connection.open",
  "10.41": "connection.open-ok",
  "10.50": "connection.close",
  "10.51": "connection.close-ok",
  "10.60": "connection.blocked",
  "20.10": "channel.open",
  "20.11": "channel.open-ok",
  "20.40": "channel.close",
  "20.41": "channel.close-ok",
  "50.10": "queue.declare",
  "50.11": "queue.declare-ok",
  "60.10": "basic.qos",
  "60.11": "basic.qos-ok",
  "60.20": "basic.consume",
  "60.21": "basic.consume-ok",
  "60.30": "basic.cancel",
  "60.31": "basic.cancel-ok",
  "60.40": "basic.publish",
  "60.50": "basic.return",
  "60.60": "basic.deliver",
  "60.80": "basic.ack",
  "60.90": "basic.reject",
  "60.120": "basic.nack",
  "85.10": "confirm.select",
  "85.11": "confirm.select-ok",
};

const TYPES: Readonly<Record<number, Frame["type"]>> = {
  1: "method",
  2: "header",
  3: "body",
  8: "heartbeat",
};
const FRAME_END = 0xce;
/** Type, channel and size before the payload; the end octet after it. */
const OVERHEAD = 8;
const PROTOCOL = Buffer.from("AMQP");

/** Splits one direction of one AMQP connection into frames. */
export class FrameSplitter {
  #pending: Buffer = Buffer.alloc(0);

  /**
   * Takes the next bytes and returns the frames that they complete.
   *
   * @throws {TypeError} when the bytes are not AMQP 0-9-1
   */
  push(bytes: Uint8Array): Frame[] {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    const frames: Frame[] = [];
    for (let next = this.#take(); next !== undefined; next = this.#take()) frames.push(next);
    return frames;
  }

  #take(): Frame | undefined {
    const pending = this.#pending;
    if (pending.length < OVERHEAD) return undefined;
    if (pending.subarray(0, 4).equals(PROTOCOL)) {
      return { type: "protocol", channel: 0, name: "protocol", bytes: this.#cut(8) };
    }
    const type = TYPES[pending.readUInt8(0)];
    const size = OVERHEAD + pending.readUInt32BE(3);
    if (type === undefined) throw new TypeError(`no AMQP frame type: ${pending.readUInt8(0)}`);
    if (pending.length < size) return undefined;
    if (pending.readUInt8(size - 1) !== FRAME_END) throw new TypeError("no AMQP frame end");
    const channel = pending.readUInt16BE(1);
    return { type, channel, name: nameOf(type, pending), bytes: this.#cut(size) };
  }

  #cut(size: number): Uint8Array {
    const bytes = this.#pending.subarray(0, size);
    this.#pending = this.#pending.subarray(size);
    return bytes;
  }
}

function nameOf(type: Frame["type"], frame: Buffer): string {
  if (type !== "method") return type;
  const numbers = `${frame.readUInt16BE(7)}.${frame.readUInt16BE(9)}`;
  return METHODS[numbers] ?? numbers;
}
