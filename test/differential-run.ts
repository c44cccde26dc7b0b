// The long differential campaign: node test/differential-run.ts --seeds 20 --steps 2000 --shards 1,4,7 [--first 1] [--parallel 4]
//
// --against beanstalkd puts a second beanstalkd in our server's place, to prove the harness.

import { parseArgs } from "node:util";
import { type DifferentialOptions, runDifferential } from "./support/differential.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "20" },
    first: { type: "string", default: "1" },
    steps: { type: "string", default: "2000" },
    shards: { type: "string", default: "1,4,7" },
    acceptors: { type: "string" },
    parallel: { type: "string", default: "4" },
    against: { type: "string", default: "ours" },
  },
});

const steps = Number(values.steps);
const first = Number(values.first);
const shardCounts = values.against === "beanstalkd" ? [0] : values.shards.split(",").map(Number);
const jobs = shardCounts.flatMap((shards) =>
  Array.from({ length: Number(values.seeds) }, (_, index): DifferentialOptions => {
    const acceptors = values.acceptors === undefined ? (shards >= 7 ? 3 : 1) : Number(values.acceptors);
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
await Promise.all(Array.from({ length: Number(values.parallel) }, work));
const seconds = Math.round((performance.now() - startedAt) / 1000);
const counts = [...words]
  .sort((left, right) => right[1] - left[1])
  .map(([word, count]) => `${word} ${count}`);
console.log(`${replies} replies compared in ${seconds} s: ${counts.join(", ")}`);
console.log(differences === 0 ? "No difference." : `${differences} conversations differ.`);
process.exitCode = differences === 0 ? 0 : 1;
