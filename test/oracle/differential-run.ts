// `npm run differential`: random conversations compared with a real beanstalkd, reply by reply.

import { InvalidArgumentError, Option } from "commander";
import { campaignCommand, seedOption, seedsOption } from "../support/campaign-command.ts";
import { type DifferentialOptions, runDifferential } from "../support/conversations/differential.ts";
import { wholeNumber } from "../support/whole-number.ts";

const THREADS_MAX = 64;

function shardCountsOf(text: string): readonly number[] {
  if (!/^\d+(,\d+)*$/.test(text)) throw new InvalidArgumentError("Numbers such as 1,4,7 are expected.");
  return text.split(",").map(wholeNumber(1, THREADS_MAX));
}

const command = campaignCommand(
  "differential",
  "Plays random conversations with our server and with a real beanstalkd in lockstep: every reply must be the same.",
)
  .addOption(seedOption("1"))
  .addOption(seedsOption("1 with --seed, else 20"))
  .option("--steps <n>", "steps of each conversation", wholeNumber(1, 1e9), 2000)
  .option("--shards <n,n…>", "numbers of shards to play with", shardCountsOf, [1, 4, 7])
  .option("--acceptors <n>", "acceptors (default: 1, and 3 with 7 shards)", wholeNumber(1, THREADS_MAX))
  .option("--parallel <n>", "conversations at a time", wholeNumber(1, THREADS_MAX), 4)
  .addOption(
    new Option("--against <server>", "what stands in our server's place, to prove the harness")
      .choices(["ours", "beanstalkd"])
      .default("ours"),
  )
  .parse();
const { steps, parallel, ...values } = command.opts<{
  seed?: number;
  seeds?: number;
  steps: number;
  shards: readonly number[];
  acceptors?: number;
  parallel: number;
  against: "ours" | "beanstalkd";
}>();
const first = values.seed ?? 1;
const seeds = values.seeds ?? (values.seed === undefined ? 20 : 1);
const shardCounts = values.against === "beanstalkd" ? [0] : values.shards;
const jobs = shardCounts.flatMap((shards) =>
  Array.from({ length: seeds }, (_, index): DifferentialOptions => {
    const acceptors = values.acceptors ?? (shards >= 7 ? 3 : 1);
    return { seed: first + index, steps, tested: shards === 0 ? "beanstalkd-1.12" : { shards, acceptors } };
  }),
);

const words = new Map<string, number>();
let replies = 0;
let differences = 0;

async function work(): Promise<void> {
  for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) {
    const where =
      job.tested === "beanstalkd-1.12"
        ? "beanstalkd"
        : `${job.tested.shards} shards, ${job.tested.acceptors} acceptors`;
    try {
      const result = await runDifferential(job);
      replies += result.replies;
      for (const [word, count] of result.repliesByWord) words.set(word, (words.get(word) ?? 0) + count);
      console.log(`seed ${job.seed}, ${steps} steps, ${where}: ${result.replies} replies, no difference`);
    } catch (error) {
      differences++;
      console.log(
        `seed ${job.seed}, ${steps} steps, ${where}: DIFFERENCE\n${error instanceof Error ? error.message : error}\n`,
      );
    }
  }
}

const startedAt = performance.now();
await Promise.all(Array.from({ length: parallel }, work));
const seconds = Math.round((performance.now() - startedAt) / 1000);
const counts = [...words]
  .sort((left, right) => right[1] - left[1])
  .map(([word, count]) => `${word} ${count}`);
console.log(`${replies} replies compared in ${seconds} s: ${counts.join(", ")}`);
console.log(differences === 0 ? "No difference." : `${differences} conversations differ.`);
process.exitCode = differences === 0 ? 0 : 1;
