// npm run soak: the real server under mixed load, kills, stalls, full disks and clock steps, with a
// ledger of everything.

import { InvalidArgumentError } from "commander";
import { campaignCommand, seedOption } from "../support/campaign-command.ts";
import { drawnSeed } from "../support/seeded-random.ts";
import { positiveNumber } from "../support/whole-number.ts";
import { FAULTS, type FaultName, plant } from "./planted-fault.ts";
import { report } from "./report.ts";
import { Soak } from "./soak.ts";
import { Violation } from "./violation.ts";

interface Options {
  readonly minutes?: number;
  readonly seconds?: number;
  readonly seed?: number;
  readonly disk: boolean;
  readonly verbose?: true;
  readonly fault?: FaultName;
}

const SECONDS_DEFAULT = 60;
const MINUTES_MAX = 10_000;

function faultOf(text: string): FaultName {
  if (!(text in FAULTS)) throw new InvalidArgumentError(`Give one of ${Object.keys(FAULTS).join(", ")}.`);
  return text as FaultName;
}

const command = campaignCommand(
  "soak",
  "Plays clients of many kinds against the server while it is killed, stalled and drained, its disk fills up, its clock " +
    "is set and its threads change in number. A ledger of every operation is compared with the server again and again. " +
    "Exits with 1, the job's history and the seed at the first promise that was not kept.",
)
  .option("--minutes <n>", "how long", positiveNumber(MINUTES_MAX))
  .option("--seconds <n>", `how long (default ${SECONDS_DEFAULT})`, positiveNumber(60 * MINUTES_MAX))
  .addOption(seedOption("another each time; the timing of a real server is not repeatable"))
  .option("--no-disk", "do not mount a small disk for the log to be filled")
  .option(
    "--fault <name>",
    `plant a fault between clients and server: ${Object.keys(FAULTS).join(", ")}`,
    faultOf,
  )
  .option("--verbose", "print what the server says at the end")
  .parse();

const options = command.opts<Options>();
if (options.minutes !== undefined && options.seconds !== undefined) {
  command.error("error: give --minutes or --seconds, not both", { exitCode: 2 });
}
const seconds = options.minutes === undefined ? (options.seconds ?? SECONDS_DEFAULT) : options.minutes * 60;
const { seed = drawnSeed() } = options;
console.error(`soak: ${seconds} s, seed ${seed}`);
const soak = new Soak({
  seed,
  seconds,
  disk: options.disk,
  say: (line) => console.error(line),
  ...(options.fault === undefined ? {} : { intermediary: plant(options.fault) }),
});
if (!soak.disk.canBeFilled) {
  const why = options.disk ? "mounting a tmpfs is not allowed here" : "--no-disk";
  console.error(`\n!!!! SKIPPED: the full disk (${why})\n`);
}
try {
  console.log(report(await soak.run()));
  console.log(`Every promise kept. Seed ${seed}.`);
} catch (error) {
  const other = `${options.disk ? "" : " --no-disk"}${options.fault === undefined ? "" : ` --fault ${options.fault}`}`;
  const text = error instanceof Violation ? error.report : error instanceof Error ? error.stack : error;
  console.error(
    `\nVIOLATION: ${text}\n\nserver: ${soak.host.description}\nagain: npm run soak -- --seconds ${seconds} --seed ${seed}${other}`,
  );
  process.exitCode = 1;
} finally {
  if (options.verbose) console.error(`the last server said:\n${soak.host.lastWords}`);
}
process.exit();
