/**
 * A process that takes a relay's identity, says which, and keeps it until it is killed.
 *
 * @module
 */
import { takeIdentity } from "../../src/ledger/identity.ts";

const [folder = ""] = Deno.args;
console.log(takeIdentity(folder, "tasks").relay);
setInterval(() => {}, 1_000);
