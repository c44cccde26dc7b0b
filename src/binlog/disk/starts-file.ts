// Record of the servers that have used a directory: `starts.json` beside the segments.
//
// A server adds itself before it gives a job id. Backups leave the file out. In a copy of the
// directory it is harmless: the copy's next start states which ids came before it.

import { assert } from "../../base/assert.ts";
import { BinlogError } from "./binlog-error.ts";
import { encodeChecked, type FieldChecks, isInteger, readChecked } from "./checked-json.ts";
import type { Disk } from "./disk.ts";
import { replaceWhole } from "./whole-file.ts";

const NAME = "starts.json";
/** Older starts are forgotten: a client that has missed so many settles no job here any more. */
const STARTS_MAX = 64;

/** A start of a server: its id, and the first job id that it could give. */
type Start = readonly [id: string, firstJobId: number];

interface StartsFile {
  /** Newest first. */
  starts: readonly Start[];
}

const ID = /^[\w-]{1,64}$/;
const isFirstId = isInteger(1);
const isStart = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 2 && ID.test(`${value[0]}`) && isFirstId(value[1]);
const CHECKS: FieldChecks<StartsFile> = {
  starts: (value) => Array.isArray(value) && value.every(isStart),
};

/**
 * Records that the server `id` gives the job ids from `firstJobId` on. Returns all recorded starts,
 * newest first. A file that can't be read or written costs no start: clients then settle no jobs
 * that they reserved before it.
 */
export function noteStart(
  disk: Disk,
  id: string,
  firstJobId: number,
  warn: (message: string) => void,
): readonly Start[] {
  assert(firstJobId >= 1, "job ids begin at 1");
  const earlier = readStarts(disk, warn);
  // A group keeps its id from start to start.
  if (earlier[0]?.[0] === id) return earlier;
  const others = earlier.filter(([other]) => other !== id);
  const own: Start = [id, firstJobId];
  const starts = [own, ...others].slice(0, STARTS_MAX);
  try {
    replaceWhole(disk, NAME, ".new", encodeChecked({ starts }));
    return starts;
  } catch (error) {
    warn(`${disk.path}/${NAME} cannot be written: ${(error as Error).message}; ${CONSEQUENCE}`);
    forgetStarts(disk);
    return [own];
  }
}

const CONSEQUENCE = "workers can't finish jobs that they reserved before this start";

function readStarts(disk: Disk, warn: (message: string) => void): readonly Start[] {
  if (!disk.names().includes(NAME)) return [];
  try {
    return readChecked(disk, NAME, CHECKS, "").starts;
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof BinlogError)) throw error;
    warn(`${disk.path}/${NAME} is damaged and was replaced; ${CONSEQUENCE}`);
    return [];
  }
}

/**
 * Forgets the servers that have used the directory: its jobs come from elsewhere from now on, or a
 * start could not be added.
 */
export function forgetStarts(disk: Disk): void {
  try {
    if (disk.names().includes(NAME)) disk.unlink(NAME);
  } catch {
    // Then the disk takes no jobs, either.
  }
}
