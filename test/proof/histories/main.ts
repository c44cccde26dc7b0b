// `npm run proof:histories`: records what clients see on real servers, and looks for an order of
// the commands that explains it.

import { readFileSync } from "node:fs";
import { Option } from "commander";
import { campaignCommand, seedOption } from "../../support/campaign-command.ts";
import { drawnSeed } from "../../support/seeded-random.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { type CampaignOptions, emptyTally, recordOn, type Tally } from "./campaign.ts";
import { BEANSTALKD_SERVER, type HistoryServer, OUR_SERVERS } from "./history-servers.ts";
import { ForeignJudge, type Judge, OurJudge } from "./judges.ts";
import type { History } from "./operation.ts";
import { LIES, type LieName } from "./planted-lies.ts";

const SERVERS = [...OUR_SERVERS, BEANSTALKD_SERVER];
/** A server of ours for planted bugs: the smallest suffices, since the bugs are in the replies. */
const LIED_ABOUT = OUR_SERVERS[0]!;

const command = campaignCommand(
  "proof:histories",
  "Records histories of concurrent clients on real servers, and checks that each is linearizable: that some " +
    "order of its commands, each between its question and its answer, explains every reply.",
)
  .addOption(seedOption())
  .option("--histories <n>", "how many, over all servers", wholeNumber(1, 1e7), 280)
  .option("--parties <n>", "groups of five clients and three tubes at a time", wholeNumber(1, 1000), 20)
  .addOption(
    new Option("--server <name>", "one server alone (default: all of ours)").choices(
      SERVERS.map(({ name }) => name),
    ),
  )
  .option("--planted", "bugs planted in the replies, which must be found: --histories for each")
  .option("--checker <program>", "another checker besides ours, which must agree (test/proof/README.md)")
  .option("--check <file>", "judges a recorded history")
  .parse();
const options = command.opts<{
  seed?: number;
  histories: number;
  parties: number;
  server?: string;
  planted?: true;
  checker?: string;
  check?: string;
}>();

function targets(): readonly HistoryServer[] {
  if (options.planted === true) return [LIED_ABOUT];
  return options.server === undefined ? OUR_SERVERS : SERVERS.filter(({ name }) => name === options.server);
}

function tell(name: string, tally: Tally, seconds: number): void {
  const { accepted, refused, undecided, operations, slack, lies, moves } = tally;
  const facts = [
    `${accepted} accepted`,
    `${refused} refused`,
    ...(undecided > 0 ? [`${undecided} undecided`] : []),
    ...(lies > 0 ? [`${lies} lies`] : []),
    `${operations} operations`,
    ...(slack[1] + slack[2] > 0 ? [`late machine: ${slack[1]} + ${slack[2]}`] : []),
    ...(moves > 0 ? [`${moves} connections moved`] : []),
    `${Math.round(seconds)} s`,
  ];
  console.log(`${name}: ${facts.join(", ")}`);
}

async function timed(name: string, target: HistoryServer, campaign: CampaignOptions): Promise<Tally> {
  const tally = emptyTally();
  const startedAt = performance.now();
  await recordOn(target, campaign, tally);
  tell(name, tally, (performance.now() - startedAt) / 1000);
  return tally;
}

/** Returns whether each planted bug was found. */
async function playPlanted(campaign: CampaignOptions): Promise<boolean> {
  let allFound = true;
  for (const lie of Object.keys(LIES) as LieName[]) {
    const { refused } = await timed(lie, LIED_ABOUT, { ...campaign, lie });
    allFound &&= refused > 0;
  }
  return allFound;
}

/** Returns whether nothing was found. */
async function play(campaign: CampaignOptions): Promise<boolean> {
  const chosen = targets();
  let accepted = 0;
  const finds: string[] = [];
  for (const [index, target] of chosen.entries()) {
    const share = Math.floor((campaign.histories + index) / chosen.length);
    const tally = await timed(target.name, target, { ...campaign, histories: share });
    accepted += tally.accepted;
    finds.push(...tally.finds);
  }
  for (const find of finds) console.log(`\n${find}`);
  console.log(`${accepted} of ${campaign.histories} histories accepted, seed ${campaign.seed}`);
  return accepted === campaign.histories;
}

async function check(judge: Judge, path: string): Promise<boolean> {
  const { verdict, why } = await judge.judge(JSON.parse(readFileSync(path, "utf8")) as History);
  console.log(`${path}: ${verdict}\n${why}`);
  return verdict === "accepted";
}

const ours = new OurJudge();
const judge = options.checker === undefined ? ours : new ForeignJudge(options.checker, ours);
const { seed = drawnSeed(), histories, parties } = options;
const campaign = { seed, histories, parties, judge };
const isGood =
  options.check !== undefined
    ? await check(judge, options.check)
    : options.planted === true
      ? await playPlanted(campaign)
      : await play(campaign);
await judge.close();
if (judge !== ours) await ours.close();
process.exitCode = isGood ? 0 : 1;
