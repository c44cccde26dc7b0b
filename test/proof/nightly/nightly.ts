// Plays campaigns for a given time, each from seeds that were never used, and says what came of it.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runInGroup } from "../group-child.ts";
import type { Campaign } from "./plan.ts";

/** A call may take so long in all, and beyond its share, before it counts as one without end. */
const CALL_MS_MAX = 900_000;
/** Lines of a failure that are kept. */
const SHOWN_LINES = 40;
/** Exit code for a need that the machine lacks, or options that do not fit. */
const NOT_RUN = 2;

interface CampaignProof {
  readonly name: string;
  readonly unit: string;
  readonly script: string;
  readonly firstSeed: number;
  readonly seeds: number;
  readonly operations: number;
  readonly seconds: number;
  readonly failures: readonly { readonly command: string; readonly output: string }[];
  /** Why it was not played. */
  readonly skipped?: string;
}

export interface Proof {
  readonly commit: string;
  /** The sources differ from that commit. */
  readonly isChanged: boolean;
  readonly startedAt: string;
  readonly minutes: number;
  readonly node: string;
  /** The first seed that no campaign of this or an earlier night has used. */
  readonly nextSeed: number;
  readonly campaigns: readonly CampaignProof[];
  readonly failures: number;
}

interface NightlyOptions {
  readonly root: string;
  readonly plan: readonly Campaign[];
  readonly minutes: number;
  readonly firstSeed: number;
  readonly say: (line: string) => void;
}

/** Where seeds begin when no earlier night is known: later than those of every earlier start. */
export const seedOfNow = (nowMs: number): number => Math.floor(nowMs / 1000 - 1_700_000_000) * 16;

export async function playNight(options: NightlyOptions): Promise<Proof> {
  const { root, plan, minutes, say } = options;
  const startedAt = new Date().toISOString();
  const weights = plan.reduce((sum, { weight }) => sum + weight, 0);
  const campaigns: CampaignProof[] = [];
  let seed = options.firstSeed;
  for (const campaign of plan) {
    const ms = (minutes * 60_000 * campaign.weight) / weights;
    const proof = await play(campaign, { root, seed, ms });
    campaigns.push(proof);
    seed += proof.seeds;
    say(lineOf(proof));
    for (const { command, output } of proof.failures) say(`  ${command}\n${output.replace(/^/gm, "    ")}`);
  }
  return {
    ...commitOf(root),
    ...{ startedAt, minutes, node: process.version, nextSeed: seed, campaigns },
    failures: campaigns.reduce((sum, { failures }) => sum + failures.length, 0),
  };
}

function commitOf(root: string): Pick<Proof, "commit" | "isChanged"> {
  const git = (...words: string[]): string =>
    execFileSync("git", words, { cwd: root, encoding: "utf8" }).trim();
  return { commit: git("rev-parse", "HEAD"), isChanged: git("status", "--porcelain", "-uno") !== "" };
}

async function play(
  campaign: Campaign,
  { root, seed, ms }: { root: string; seed: number; ms: number },
): Promise<CampaignProof> {
  const { name, unit, script } = campaign;
  const nothing = { name, unit, script, firstSeed: seed, seeds: 0, operations: 0, seconds: 0, failures: [] };
  const program = programOf(root, script);
  if (program === undefined) return { ...nothing, skipped: `package.json has no script ${script}` };
  const startedAt = performance.now();
  const failures: { command: string; output: string }[] = [];
  let seeds = 0;
  let operations = 0;
  // The first call is made whatever the time; a failure ends the campaign, and the others go on.
  do {
    const words = campaign.arguments(seed + seeds, campaign.seeds);
    const leftMs = Math.max(0, ms - (performance.now() - startedAt));
    const { code, output } = await call(root, [...program, ...words], campaign, leftMs + CALL_MS_MAX);
    if (code === NOT_RUN) return { ...nothing, skipped: lastLines(output, 3) };
    seeds += campaign.seeds;
    for (const [, count = ""] of output.matchAll(campaign.counts)) operations += Number(count);
    if (code !== 0) {
      const variables = Object.entries(campaign.environment ?? {}).map(([key, value]) => `${key}=${value} `);
      const command = `${variables.join("")}npm run ${script} -- ${words.join(" ")}`;
      failures.push({ command, output: lastLines(output, SHOWN_LINES) });
    }
  } while (failures.length === 0 && performance.now() - startedAt < ms);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  return { ...nothing, seeds, operations, seconds, failures };
}

const lastLines = (text: string, lines: number): string =>
  text.trimEnd().split("\n").slice(-lines).join("\n");

/** The words of an npm script, which npm need not start. */
function programOf(root: string, script: string): readonly string[] | undefined {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    scripts: Readonly<Record<string, string>>;
  };
  return scripts[script]?.split(" ");
}

async function call(
  root: string,
  [program, ...words]: readonly string[],
  { environment = {} }: Campaign,
  timeoutMs: number,
): Promise<{ code: number | "timeout"; output: string }> {
  const path = join(root, program!);
  const found = existsSync(path) ? path : program!;
  const { code, output } = await runInGroup({
    program: found,
    ...{ words, folder: root, environment, timeoutMs },
  });
  if (code !== "timeout") return { code, output };
  return { code, output: `${output}\nno end after ${Math.round(timeoutMs / 1000)} s` };
}

function lineOf({
  name,
  unit,
  firstSeed,
  seeds,
  operations,
  seconds,
  failures,
  skipped,
}: CampaignProof): string {
  if (skipped !== undefined) return `${name}: not played: ${skipped}`;
  const last = firstSeed + seeds - 1;
  return `${name}: ${operations} ${unit} from seeds ${firstSeed} to ${last} in ${seconds} s, ${failures.length} failed`;
}
