// Flips bits in the files of a log that are no longer written, as a disk does, and says which of
// them a report of damaged places leaves out.

import assert from "node:assert/strict";
import { closeSync, fdatasyncSync, fstatSync, openSync, readdirSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { SeededRandom } from "./seeded-random.ts";

const BLOCK_BYTES = 4096;

interface Flip {
  readonly file: string;
  readonly at: number;
  readonly isInLastBlock: boolean;
}

/** As `scrub` of /v1/binlog has it. */
interface Place {
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
}

/** The files that are no longer written: not the last one, created ahead, nor that before it. */
export const closedFilesOf = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.startsWith("runnerbean."))
    .sort()
    .slice(0, -2);

/** One flip in six is in the last block of its file. */
export function flipBits(folder: string, count: number, random: SeededRandom): Flip[] {
  const files = closedFilesOf(folder);
  assert.ok(files.length > 0, "some files are no longer written");
  return Array.from({ length: count }, (_, n) => flipBit(folder, random.pick(files)!, n % 6 === 0, random));
}

function flipBit(folder: string, file: string, inLastBlock: boolean, random: SeededRandom): Flip {
  const handle = openSync(join(folder, file), "r+");
  const { size } = fstatSync(handle);
  const at = inLastBlock ? size - 1 - random.below(BLOCK_BYTES) : random.below(size);
  const byte = Buffer.alloc(1);
  readSync(handle, byte, 0, 1, at);
  byte[0]! ^= 1 << random.below(8);
  writeSync(handle, byte, 0, 1, at);
  fdatasyncSync(handle);
  closeSync(handle);
  return { file, at, isInLastBlock: at >= size - BLOCK_BYTES };
}

const covers = (place: Place, { file, at }: Flip): boolean =>
  place.file === file && at >= place.offset && at < place.offset + place.bytes;

/** Returns the flips that no place covers. */
export const missedOf = (flips: readonly Flip[], places: readonly Place[]): Flip[] =>
  flips.filter((flip) => !places.some((place) => covers(place, flip)));

/** Returns what a scrub would report that never reads the last block of a file. */
export const withoutLastBlocks = (flips: readonly Flip[], places: readonly Place[]): Place[] =>
  places.filter((place) => !flips.some((flip) => flip.isInLastBlock && covers(place, flip)));
