// Runs one fuzzer for some time or number of runs, each from the next seed; shrinks a finding and
// writes it down.

import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import type { Difference, FuzzCase, Fuzzer } from "./fuzzer.ts";
import { type Piece, written } from "./piece.ts";
import { shrink } from "./shrink.ts";

interface CampaignLimits {
  readonly firstSeed: number;
  /** Runs at most. */
  readonly runs: number;
  /** Time at most. */
  readonly ms: number;
  /** Time for the shortening of what was found; with 0 it is not even tried again. */
  readonly shrinkMs: number;
}

export interface Finding {
  readonly seed: number;
  readonly difference: Difference;
  /** The shortest input found. */
  readonly pieces: readonly Piece[];
  /** It was there again when the same input was sent to fresh servers. */
  readonly isRepeatable: boolean;
}

interface CampaignResult {
  readonly runs: number;
  readonly finding: Finding | undefined;
}

const SHRINK_TRIES = 5000;

/** Stops at the first finding. The fuzzer is not stopped. */
export async function runCampaign(fuzzer: Fuzzer, limits: CampaignLimits): Promise<CampaignResult> {
  const deadline = performance.now() + limits.ms;
  let runs = 0;
  for (; runs < limits.runs && performance.now() < deadline; runs++) {
    const seed = limits.firstSeed + runs;
    const fuzzCase = fuzzer.draw(seed);
    const difference = await fuzzer.judge(fuzzCase);
    if (difference === undefined) continue;
    const finding = await shortened(fuzzer, fuzzCase, difference, seed, limits.shrinkMs);
    return { runs: runs + 1, finding };
  }
  await fuzzer.finish();
  return { runs, finding: undefined };
}

async function shortened(
  fuzzer: Fuzzer,
  fuzzCase: FuzzCase,
  difference: Difference,
  seed: number,
  shrinkMs: number,
): Promise<Finding> {
  const judge = async (pieces: readonly Piece[]): Promise<Difference | undefined> => {
    const found = await fuzzer.judge({ ...fuzzCase, pieces });
    // Whatever was found may have harmed the servers.
    if (found !== undefined) await fuzzer.restart();
    return found;
  };
  await fuzzer.restart();
  if (shrinkMs === 0 || (await judge(fuzzCase.pieces)) === undefined)
    return { seed, difference, pieces: fuzzCase.pieces, isRepeatable: false };
  const limits = { tries: SHRINK_TRIES, ms: shrinkMs };
  const pieces = await shrink(
    fuzzCase.pieces,
    async (shorter) => (await judge(shorter)) !== undefined,
    limits,
  );
  await fuzzer.restart();
  return { seed, difference: (await judge(pieces)) ?? difference, pieces, isRepeatable: true };
}

/** Writes the finding as a transcript; returns the file's path. */
export function writeFinding(fuzzer: Fuzzer, fuzzCase: FuzzCase, finding: Finding): string {
  const folder = `${tmpdir()}/runnerbean-fuzz`;
  mkdirSync(folder, { recursive: true });
  const path = `${folder}/fuzz-${fuzzer.name}-${finding.seed}.txt`;
  const head = [
    `# ${againCommand(fuzzer, finding.seed)} (${fuzzer.place}): ${finding.difference.what.replaceAll("\n", " ")}`,
    `flags: ${fuzzer.flagsOf(fuzzCase)}`,
  ];
  writeFileSync(path, `${[...head, ...finding.difference.transcript].join("\n")}\n`);
  return path;
}

function againCommand(fuzzer: Fuzzer, seed: number): string {
  return `npm run fuzz -- --fuzzer ${fuzzer.name} --seed ${seed} --seeds 1`;
}

const SHOWN_CHARACTERS = 1000;

/** Describes a finding for a person. */
export function describeFinding(fuzzer: Fuzzer, finding: Finding, path: string): string {
  const { difference, pieces } = finding;
  const shown = (text: string): string =>
    text.length <= SHOWN_CHARACTERS
      ? text
      : `${text.slice(0, SHOWN_CHARACTERS)}… (${text.length} characters)`;
  return [
    `${fuzzer.name} fuzzer, ${fuzzer.place}, seed ${finding.seed}: ${difference.what}`,
    finding.isRepeatable
      ? "the shortest input found (escapes as in transcripts):"
      : "NOT SEEN AGAIN with the same input on fresh servers; the whole input:",
    ...pieces.map(({ client, text }) => `  client ${client}: ${shown(written(text))}`),
    `expected: ${shown(written(difference.expected))}`,
    `got:      ${difference.what === "the server failed" ? difference.got : shown(written(difference.got))}`,
    `again:    ${againCommand(fuzzer, finding.seed)}`,
    `transcript: ${path} (complete it, then keep it as test/transcripts/fuzz-….txt)`,
  ].join("\n");
}
