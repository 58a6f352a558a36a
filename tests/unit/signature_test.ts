/**
 * Signatures, checked by the package that receivers use and, for bytes that it can't take, by
 * WebCrypto.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { createSigner } from "../../src/consumer/signature.ts";

const anySecret = fc.uint8Array({ minLength: 24, maxLength: 64 });
const now = (): number => Math.floor(Date.now() / 1000);

function headers(id: string, seconds: number, signature: string): Record<string, string> {
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": signature,
  };
}

function receiver(secret: Uint8Array): Webhook {
  return new Webhook(`whsec_${secret.toBase64()}`);
}

Deno.test("the example that Standard Webhooks publishes → the signature that is printed there", () => {
  const secret = Uint8Array.fromBase64("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  const payload = new TextEncoder().encode('{"test": 2432232314}');
  assert.equal(
    createSigner([secret])("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, payload),
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  );
});

Deno.test("any secret and any JSON → the receiver's package verifies it", () => {
  fc.assert(fc.property(anySecret, fc.json(), fc.uuid(), (secret, text, id) => {
    const seconds = now();
    const signature = createSigner([secret])(id, seconds, new TextEncoder().encode(text));
    receiver(secret).verify(text, headers(id, seconds, signature));
  }));
});

Deno.test("another secret, payload, id or time → the receiver's package refuses it", () => {
  const [secret, other] = [new Uint8Array(24).fill(1), new Uint8Array(24).fill(2)];
  const seconds = now();
  const signature = createSigner([secret])("t1", seconds, Buffer.from('{"a":1}'));
  receiver(secret).verify('{"a":1}', headers("t1", seconds, signature));
  const refused: readonly [Uint8Array, string, string, number][] = [
    [other, '{"a":1}', "t1", seconds],
    [secret, '{"a": 1}', "t1", seconds],
    [secret, '{"a":1}', "t2", seconds],
    [secret, '{"a":1}', "t1", seconds + 1],
  ];
  for (const [key, payload, id, at] of refused) {
    const verify = (): unknown => receiver(key).verify(payload, headers(id, at, signature));
    assert.throws(verify, /No matching signature/);
  }
});

Deno.test("several secrets → a signature each, in their order, and each receiver finds its own", () => {
  fc.assert(fc.property(fc.array(anySecret, { minLength: 1, maxLength: 10 }), (secrets) => {
    const seconds = now();
    const signature = createSigner(secrets)("t1", seconds, Buffer.from("1"));
    const alone = secrets.map((secret) => createSigner([secret])("t1", seconds, Buffer.from("1")));
    assert.equal(signature, alone.join(" "));
    for (const secret of secrets) receiver(secret).verify("1", headers("t1", seconds, signature));
  }));
});

Deno.test("any bytes, valid UTF-8 or not → the HMAC of exactly these bytes", async () => {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  await fc.assert(fc.asyncProperty(anySecret, fc.uint8Array(), async (secret, payload) => {
    // A view into something larger, as a delivery's body is.
    const body = new Uint8Array([1, ...payload, 2]).subarray(1, payload.length + 1);
    const key = await crypto.subtle.importKey("raw", new Uint8Array(secret), algorithm, false, [
      "sign",
    ]);
    const content = new Uint8Array([...new TextEncoder().encode("t1.17."), ...payload]);
    const expected = new Uint8Array(await crypto.subtle.sign("HMAC", key, content)).toBase64();
    assert.equal(createSigner([secret])("t1", 17, body), `v1,${expected}`);
  }));
});
