// Which marks a run of the simulators has reached, from V8's counts of blocks.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { simulate as simulateLog } from "../../binlog/simulation.ts";
import { simulateGroup } from "../../replica/simulation.ts";
import { simulateBatches } from "../../simulation/batches/batch-simulation.ts";
import { contendForNames } from "../../simulation/schedules/contended-names.ts";
import { playSchedules } from "../../simulation/schedules/schedule-campaign.ts";
import { simulate as simulateServer } from "../../simulation/simulation.ts";
import { type CodeCoverage, SOURCES } from "../fuzz/code-coverage.ts";
import type { Mark, Simulator } from "./marks.ts";

const PLAYS: Readonly<Record<Simulator, (seed: number) => Promise<unknown>>> = {
  server: (seed) => simulateServer({ seed, steps: 500 }),
  batches: (seed) => simulateBatches({ seed, steps: 300, hops: seed % 2 === 0 }),
  schedules: async (seed) => {
    await playSchedules(seed);
    await contendForNames({ seed, steps: 500, shards: [1, 2, 4, 7][seed % 4]! });
  },
  log: simulateLog,
  group: (seed) => simulateGroup({ seed, steps: 3000 }),
};

/** Where a mark is: a path from src, and the offset of the last character of its text. */
interface MarkPlace {
  readonly mark: Mark;
  readonly path: string;
  readonly offset: number;
}

/** Finds each mark in src. Throws if its text doesn't stand there exactly once. */
export function placesOf(marks: readonly Mark[]): readonly MarkPlace[] {
  const root = fileURLToPath(SOURCES);
  const paths = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".ts"),
  );
  const texts = new Map(paths.map((path) => [path, readFileSync(`${root}${path}`, "utf8")]));
  return marks.map((mark) => {
    const found = [...texts].flatMap(([path, text]) =>
      [...text.matchAll(new RegExp(RegExp.escape(mark.code), "g"))].map(({ index }) => ({
        ...{ mark, path },
        offset: index + mark.code.length - 1,
      })),
    );
    assert.equal(found.length, 1, `"${mark.what}" stands ${found.length} times in src; correct its text`);
    return found[0]!;
  });
}

/**
 * Plays the seeds and returns how often each place ran since the coverage was last read. V8 counts
 * blocks only in code that it compiles while it counts, so one coverage serves all simulators.
 */
export async function countMarks(
  coverage: CodeCoverage,
  simulator: Simulator,
  places: readonly MarkPlace[],
  seeds: Iterable<number>,
): Promise<ReadonlyMap<Mark, number>> {
  for (const seed of seeds) await PLAYS[simulator](seed);
  const blocks = coverage.blocks();
  return new Map(places.map(({ mark, path, offset }) => [mark, timesAt(blocks.get(path) ?? [], offset)]));
}

/** The count of the innermost block around an offset; 0 if its file was not loaded. */
function timesAt(
  blocks: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[],
  offset: number,
): number {
  let innermost: (typeof blocks)[number] | undefined;
  for (const block of blocks) {
    if (block.startOffset > offset || block.endOffset <= offset) continue;
    if (innermost === undefined || widthOf(block) <= widthOf(innermost)) innermost = block;
  }
  return innermost?.count ?? 0;
}

const widthOf = (block: { readonly startOffset: number; readonly endOffset: number }): number =>
  block.endOffset - block.startOffset;
