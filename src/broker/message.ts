/**
 * Between a task and an AMQP message: properties and headers, the body untouched.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Message } from "amqplib";
import type { Failure } from "../consumer/ports.ts";
import { HEADER, taskHeaders } from "../task.ts";
import type { RawMessage, Task } from "../task.ts";
import type { OutgoingMessage } from "./publisher.ts";

/**
 * The most bytes of foreign headers that are kept on a message that can't be understood: amqplib
 * encodes no more than 64 KiB, and ours are to be added.
 */
const FOREIGN_HEADERS_BYTES = 32 * 1024;

/** The longest id, content type or name of a header in AMQP, bytes. */
const SHORT_STRING_BYTES = 255;

/** The message that carries `task`. */
export function taskMessage(task: Task): OutgoingMessage {
  return {
    body: task.body,
    options: {
      messageId: task.id,
      contentType: task.contentType,
      timestamp: Math.floor(task.enqueuedAt / 1000),
      headers: taskHeaders(task),
    },
  };
}

/** The message that lies in the failed queue for `task`. */
export function failedTask(task: Task, failure: Failure): OutgoingMessage {
  const { body, options } = taskMessage(task);
  return { body, options: { ...options, headers: { ...options.headers, ...reasons(failure) } } };
}

/** The message that lies in the failed queue for one that can't be understood. */
export function failedMessage(id: string, message: Message, failure: Failure): OutgoingMessage {
  const { contentType } = message.properties;
  return {
    body: message.content,
    options: {
      messageId: id,
      headers: { ...foreignHeaders(message.properties.headers ?? {}), ...reasons(failure) },
      ...(isShortString(contentType) && { contentType }),
    },
  };
}

/** An AMQP message in the terms of `task.ts`. */
export function rawMessage({ content, properties }: Message): RawMessage {
  return {
    body: content,
    id: properties.messageId,
    contentType: properties.contentType,
    headers: properties.headers ?? {},
  };
}

function reasons(failure: Failure): Record<string, string | number> {
  return {
    [HEADER.reason]: failure.reason,
    [HEADER.failedAt]: failure.failedAt,
    ...(failure.lastStatus !== undefined && { [HEADER.lastStatus]: failure.lastStatus }),
    ...(failure.lastError !== undefined && { [HEADER.lastError]: failure.lastError }),
  };
}

/**
 * Headers of another producer, as far as they can be published again: a number like Infinity would
 * close the connection, and a copied `x-death` makes RabbitMQ drop a message as going in circles.
 */
function foreignHeaders(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(headers).filter(([name, value]) =>
    !name.startsWith("x-") && isShortString(name) &&
    (typeof value === "string" || Number.isSafeInteger(value))
  );
  const bytes = Buffer.byteLength(JSON.stringify(kept));
  return bytes <= FOREIGN_HEADERS_BYTES ? Object.fromEntries(kept) : {};
}

/** What came as 255 bytes that are no UTF-8 is longer when it is encoded again. */
function isShortString(value: unknown): value is string {
  return typeof value === "string" && Buffer.byteLength(value) <= SHORT_STRING_BYTES;
}
