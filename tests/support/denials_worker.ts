/**
 * Runs in a Worker with the consumer's permissions and tries what it is told to, so that the tests
 * learn from inside what is allowed.
 *
 * @module
 */

import { systemClock } from "../../src/clock.ts";
import { Backend } from "../../src/consumer/backend.ts";
import { aTask } from "./tasks.ts";

/** What can be tried. */
export type Attempt =
  | { readonly kind: "connect"; readonly hostname: string; readonly port: number }
  | { readonly kind: "listen"; readonly port: number }
  | { readonly kind: "read" | "write" | "remove"; readonly path: string }
  | { readonly kind: "symlink"; readonly path: string; readonly target: string }
  | { readonly kind: "env"; readonly name: string }
  | { readonly kind: "envAll" | "run" | "ffi" | "sys" }
  | { readonly kind: "post"; readonly url: string }
  | { readonly kind: "import"; readonly specifier: string };

interface WorkerScope {
  onmessage: ((event: MessageEvent<Attempt>) => void) | null;
  postMessage(result: string): void;
}

const scope = globalThis as unknown as WorkerScope;

scope.onmessage = async ({ data }) => scope.postMessage(await outcomeOf(data));

/** `allowed`, or the name of the error. */
async function outcomeOf(attempt: Attempt): Promise<string> {
  try {
    await make(attempt);
    return "allowed";
  } catch (error) {
    return error instanceof Error ? nameOf(error) : String(error);
  }
}

/** Node's modules wrap Deno's error, and so does `import`. */
function nameOf(error: Error): string {
  const denied = /\bRequires \w+ access\b/.test(`${error.message} ${error.cause}`);
  return denied ? "NotCapable" : error.name;
}

async function make(attempt: Attempt): Promise<void> {
  switch (attempt.kind) {
    case "connect":
      return (await Deno.connect(attempt)).close();
    case "listen":
      return Deno.listen({ hostname: "127.0.0.1", port: attempt.port }).close();
    case "read":
      return void Deno.readTextFileSync(attempt.path);
    case "write":
      return Deno.writeTextFileSync(attempt.path, "written");
    case "remove":
      return Deno.removeSync(attempt.path);
    case "symlink":
      return Deno.symlinkSync(attempt.target, attempt.path);
    case "env":
      return void Deno.env.get(attempt.name);
    case "envAll":
      return void Deno.env.toObject();
    case "run":
      return void await new Deno.Command(Deno.execPath()).output();
    case "ffi":
      return Deno.dlopen("libc.so.6", {}).close();
    case "sys":
      return void Deno.hostname();
    case "post":
      return await post(attempt.url);
    case "import":
      return await import(attempt.specifier);
  }
}

/** A task by way of the real client, which reads its variables with the first request. */
async function post(url: string): Promise<void> {
  const options = {
    timeoutMs: 10_000,
    connections: 1,
    maxAttempts: 1,
    retryAfterMaxMs: 0,
    clock: systemClock,
  };
  const backend = new Backend({ ...options, url: new URL(url) });
  const answer = await backend.send(aTask(), () => true, new AbortController().signal);
  await backend.close();
  if (answer?.kind === "failure") throw new Error(answer.error);
}
