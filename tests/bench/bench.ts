/**
 * `deno task bench`: the figures in the README, measured side by side; with words, as in
 * `deno task bench scraped`, only those whose title has them all.
 *
 * The machine is whatever it is and others may use it too, so nothing here is an absolute truth:
 * what is compared is measured in turns, in one run, on a broker of its own, and shown as median and
 * range over the rounds.
 *
 * @module
 */

import { startRabbit } from "../support/rabbitmq.ts";
import { acceptBatches, acceptSingles, deliverBacklog, shareWhenScraped } from "./scenarios.ts";
import { median, quartiles, show } from "./stats.ts";

const ROUNDS = 3;

/** One line of the table: what is measured, and how. */
interface Measure {
  readonly name: string;
  readonly run: () => Promise<number>;
}

await using rabbit = await startRabbit();
console.log(
  `RabbitMQ ${rabbit.version}, Deno ${Deno.version.deno}, ${navigator.hardwareConcurrency} cores`,
);

const OFF = { LEDGER: "off" };
const ON = { LEDGER: "on" };
const one = { connections: 1, seconds: 4 };
const many = { connections: 64, seconds: 4 };
const batch = { tasks: 100 };
const backlog = { count: 20_000 };

await compare("accepted tasks a second, one client, 400 bytes, ledger on", [
  { name: "single posts", run: () => acceptSingles(rabbit, { env: ON, ...one }) },
  { name: "batches of 100", run: () => acceptBatches(rabbit, { env: ON, ...one, ...batch }) },
]);
await compare("accepted tasks a second, 64 clients, 400 bytes", [
  { name: "single posts, ledger off", run: () => acceptSingles(rabbit, { env: OFF, ...many }) },
  { name: "single posts, ledger on", run: () => acceptSingles(rabbit, { env: ON, ...many }) },
  {
    name: "batches of 100, ledger on",
    run: () => acceptBatches(rabbit, { env: ON, ...many, ...batch }),
  },
]);
await compare("delivered tasks a second, of 20,000 that wait, CONCURRENCY 100, no limit", [
  { name: "ledger off", run: () => deliverBacklog(rabbit, { env: OFF, ...backlog }) },
  { name: "ledger on", run: () => deliverBacklog(rabbit, { env: ON, ...backlog }) },
]);

await compareScraped("share of the throughput that is left when /metrics is scraped every second");

/** Measures in turns and prints a table; the ratio is to the first line. */
async function compare(title: string, measures: readonly Measure[]): Promise<void> {
  if (!isWanted(title)) return;
  const results = new Map<string, number[]>(measures.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const { name, run } of measures) results.get(name)?.push(await run());
  }
  console.log(`\n${title}`);
  const first = median(results.get(measures[0]?.name ?? "") ?? []);
  for (const [name, values] of results) {
    const ratio = (median(values) / first).toFixed(2);
    console.log(`  ${name.padEnd(28)} ${show(values).padStart(26)}   ${ratio}`);
  }
}

/** Prints the median, and between what the middle half lies. */
async function compareScraped(title: string): Promise<void> {
  if (!isWanted(title)) return;
  const shares: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    shares.push(...await shareWhenScraped(rabbit, { env: OFF, count: 100_000 }));
  }
  const [low, middle, high] = quartiles(shares).map((share) => share.toFixed(3));
  console.log(`\n${title}\n  ${middle} (${low}–${high}), ${shares.length} times four seconds`);
}

function isWanted(title: string): boolean {
  return Deno.args.every((word) => title.includes(word));
}
