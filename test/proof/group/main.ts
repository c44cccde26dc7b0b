// `npm run proof:group`: faults of a group under load, with a ledger and histories of its clients,
// and what JetStream alone loses in the same rounds.

import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { campaignCommand, seedOption } from "../../support/campaign-command.ts";
import "../../support/machine/own-network.ts";
import { noNamespaces } from "../../support/machine/namespaces.ts";
import { drawnSeed, SeededRandom } from "../../support/seeded-random.ts";
import { missingNats } from "../../support/server/nats-cluster.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { OurJudge } from "../histories/judges.ts";
import { whyNoClocks } from "./clocks.ts";
import { GroupRounds, type RoundReport } from "./group-rounds.ts";
import { NEMESES, type NemesisName } from "./nemeses.ts";
import { lineOf, tableOf } from "./round-lines.ts";

/** Rounds of one group, which keeps its jobs and its log over them. */
const ROUNDS_OF_A_GROUP = 12;

const options = campaignCommand(
  "proof:group",
  "Plays faults to a group of three servers on three log servers under load: kills, pauses, partitions, jumps of " +
    "clocks, damaged files, and servers that leave and join. After each, every acknowledged change must be there, " +
    "and an order of the commands must explain what clients saw. A stream of JetStream alone is counted beside it.",
)
  .addOption(seedOption())
  .option("--rounds <n>", "how many", wholeNumber(1, 1e6), 30)
  .option("--minutes <n>", "begins no round after so many", wholeNumber(1, 1e5))
  .addOption(
    new Option("--nemesis <name>", "one kind of faults alone (default: all that can be played here)").choices(
      Object.keys(NEMESES),
    ),
  )
  .option("--planted", "servers that answer before the group has a change, which must be found")
  .parse()
  .opts<{ seed?: number; rounds: number; minutes?: number; nemesis?: NemesisName; planted?: true }>();

/** Why a nemesis can't be played here. */
const WHY_NOT: Partial<Readonly<Record<NemesisName, string | undefined>>> = {
  partition: noNamespaces(),
  clock: whyNoClocks(),
};

function playable(): readonly NemesisName[] {
  const all = Object.keys(NEMESES) as NemesisName[];
  return all.filter((name) => {
    if (options.nemesis !== undefined && name !== options.nemesis) return false;
    if (WHY_NOT[name] !== undefined) console.log(`not played: ${name}: ${WHY_NOT[name]}`);
    return WHY_NOT[name] === undefined;
  });
}

/** One group in three has clocks that can be shifted, and half of its rounds do that. */
const hasClocksIn = (round: number, names: readonly NemesisName[]): boolean =>
  names.includes("clock") && (names.length === 1 || Math.floor(round / ROUNDS_OF_A_GROUP) % 3 === 2);

/** What was wrong in a round, in a folder of its own: the histories that were refused, too. */
function keep(name: string, report: RoundReport, group: GroupRounds): string {
  const folder = join(tmpdir(), "runnerbean-proof", name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "round.txt"), `${report.what}\n${report.finds.join("\n")}\n${group.said}`);
  for (const history of group.notAccepted.splice(0))
    writeFileSync(join(folder, `${history.name}.json`), `${JSON.stringify(history)}\n`);
  return folder;
}

async function play(names: readonly NemesisName[], seed: number): Promise<readonly RoundReport[]> {
  const random = new SeededRandom(seed);
  const judge = new OurJudge();
  const reports: RoundReport[] = [];
  const untilMs = performance.now() + (options.minutes ?? Number.POSITIVE_INFINITY) * 60_000;
  let group: GroupRounds | undefined;
  const end = async (): Promise<void> => {
    await group?.end();
    group = undefined;
  };
  const flags = options.planted === true ? ["--replicate-wait", "nothing"] : [];
  const hasNetwork = WHY_NOT.partition === undefined;
  try {
    for (let round = 0; round < options.rounds && performance.now() < untilMs; round++) {
      const hasClocks = hasClocksIn(round, names);
      random.beginStep(round);
      const others = names.filter((name) => name !== "clock");
      const nemesis =
        hasClocks && (others.length === 0 || random.chance(0.5)) ? "clock" : random.pick(others)!;
      if (round % ROUNDS_OF_A_GROUP === 0) await end();
      group ??= await GroupRounds.start({ flags, judge, hasNetwork, hasClocks });
      const name = `group-${seed}-${round}`;
      const report = await group.play(nemesis, name, random);
      reports.push(report);
      console.log(`round ${round}: ${lineOf(report)}`);
      if (report.finds.length === 0 && report.verdicts.undecided === 0) continue;
      for (const find of report.finds.slice(0, 5)) console.log(find.replace(/^/gm, "    "));
      console.log(`    all of it: ${keep(name, report, group)}`);
      // The next round begins with a sound group.
      if (report.finds.length > 0) await end();
    }
  } finally {
    await end();
    await judge.close();
  }
  return reports;
}

const reason = missingNats();
const names = playable();
if (reason !== undefined || names.length === 0) {
  console.error(`Cannot play faults to a group here: ${reason ?? WHY_NOT[options.nemesis!]}.`);
  process.exitCode = 2;
} else {
  const { seed = drawnSeed(), planted } = options;
  const reports = await play(names, seed);
  const failed = reports.filter(({ finds }) => finds.length > 0).length;
  console.log(tableOf(reports));
  console.log(`${reports.length} rounds, ${failed} with a find, seed ${seed}`);
  process.exitCode = (planted === true) === failed > 0 ? 0 : 1;
}
