/**
 * Asks a port whether an AMQP broker lives there, and which version it is.
 *
 * A port that accepts connections says little: RabbitMQ's own listener comes up last, but a
 * forwarder or another program may hold the port. The first frame of AMQP 0-9-1 is sent before any
 * authentication and carries the broker's version, so that asking needs neither a password nor
 * `rabbitmqctl`, which takes a second to start.
 *
 * @module
 */

const PROTOCOL_HEADER = new Uint8Array([0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1]);
const METHOD_FRAME = 1;

/** What answered. */
export type Probe =
  /** Nothing accepted a connection. */
  | { readonly kind: "nothing" }
  /** Something accepted, but did not speak AMQP in time. */
  | { readonly kind: "other" }
  | { readonly kind: "amqp"; readonly version: string };

/** Connects to `host:port` and reads the first frame, for at most `timeoutMs` milliseconds. */
export async function probeBroker(host: string, port: number, timeoutMs = 2000): Promise<Probe> {
  let connection: Deno.TcpConn;
  try {
    connection = await Deno.connect({ hostname: host, port });
  } catch {
    return { kind: "nothing" };
  }
  let open = true;
  const close = (): void => {
    if (open) connection.close();
    open = false;
  };
  const deadline = setTimeout(close, timeoutMs);
  try {
    await connection.write(PROTOCOL_HEADER);
    return readStart(await readFrame(connection));
  } catch {
    return { kind: "other" };
  } finally {
    clearTimeout(deadline);
    close();
  }
}

/** The bytes up to the end of the first frame, or fewer when the peer closed before. */
async function readFrame(connection: Deno.TcpConn): Promise<Uint8Array> {
  const frame = new Uint8Array(8192);
  let length = 0;
  while (length < frame.length) {
    const read = await connection.read(frame.subarray(length));
    if (read === null) break;
    length += read;
    const size = new DataView(frame.buffer).getUint32(3);
    if (length >= 7 && length >= size + 8) break;
  }
  return frame.subarray(0, length);
}

function readStart(frame: Uint8Array): Probe {
  if (frame[0] !== METHOD_FRAME) return { kind: "other" };
  const text = new TextDecoder("latin1").decode(frame);
  // In the table of server properties: the name, 'S' for a long string, four bytes of length.
  const start = text.indexOf("versionS\0\0\0");
  if (start < 0) return { kind: "amqp", version: "unknown" };
  const at = start + "versionS\0\0\0".length;
  return { kind: "amqp", version: text.slice(at + 1, at + 1 + text.charCodeAt(at)) };
}
