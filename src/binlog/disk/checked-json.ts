// Small JSON files beside the segments, with a checksum: a flipped digit would still be JSON.

import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { BinlogError } from "./binlog-error.ts";
import { type Disk, readWhole, replaceWhole } from "./disk.ts";

/** Check of a field: whether its value has the right type and range. */
export type FieldChecks<T> = { readonly [Field in keyof T]: (value: unknown) => boolean };

/** Returns the bytes of the file. `values` is flat. */
export function encodeChecked(values: object): Uint8Array {
  const checksum = crc32(JSON.stringify(values));
  return new TextEncoder().encode(`${JSON.stringify({ ...values, checksum })}\n`);
}

/**
 * Reads a file of `encodeChecked`, or of a version before it, without a checksum. Throws
 * BINLOG_CORRUPT with `remedy` for wrong values, and a SyntaxError for incomplete JSON.
 */
export function readChecked<T>(disk: Disk, name: string, checks: FieldChecks<T>, remedy: string): T {
  const read: unknown = JSON.parse(new TextDecoder().decode(readWhole(disk, name)));
  const { checksum, ...values } = Object(read) as Record<string, unknown>;
  const wrong = Object.entries<(value: unknown) => boolean>(checks).find(
    ([field, isRight]) => !isRight(values[field]),
  );
  if (wrong !== undefined)
    throw damaged(disk, name, `${wrong[0]} is ${JSON.stringify(values[wrong[0]])}`, remedy);
  if (checksum !== undefined && checksum !== crc32(JSON.stringify(values)))
    throw damaged(disk, name, "its checksum is wrong", remedy);
  return values as T;
}

export function damaged(disk: Disk, name: string, why: string, remedy: string): BinlogError {
  return new BinlogError("BINLOG_CORRUPT", `${disk.path}/${name} is damaged: ${why}`, remedy);
}

/** Returns a check for an integer from `min` to `max`. */
export const isInteger =
  (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;

// Record of a directory's group: `group.json` beside the segments.

const GROUP_FILE_NAME = "group.json";
const GROUP_REMEDY =
  "Move the directory away to get everything from the group; if no other server has its jobs, remove that file and reseed the group from the directory.";

export interface GroupFile {
  /** The id that the shared log got at its creation. */
  groupId: string;
  /** This directory's node number in the group: 32 random bits. */
  node: number;
  /**
   * Records up to this sequence are the directory's own jobs, whatever batches they came in,
   * because `reseed` starts the group from them.
   */
  adoptAfter: number;
}

const GROUP_CHECKS: FieldChecks<GroupFile> = {
  groupId: (value) => typeof value === "string",
  node: isInteger(1, 2 ** 32 - 1),
  adoptAfter: isInteger(0),
};

export function readGroupFile(disk: Disk): GroupFile | undefined {
  if (!disk.names().includes(GROUP_FILE_NAME)) return undefined;
  try {
    return readChecked(disk, GROUP_FILE_NAME, GROUP_CHECKS, GROUP_REMEDY);
  } catch (error) {
    if (error instanceof SyntaxError) throw damaged(disk, GROUP_FILE_NAME, "it isn't JSON", GROUP_REMEDY);
    throw error;
  }
}

export function writeGroupFile(disk: Disk, file: GroupFile): void {
  assert(file.node > 0 && file.adoptAfter >= 0, "a node of a group has a number");
  replaceWhole(disk, GROUP_FILE_NAME, ".new", encodeChecked(file));
}

// Record of the servers that have used a directory: `starts.json` beside the segments.
//
// A server adds itself before it gives a job id. Backups leave the file out. In a copy of the
// directory it is harmless: the copy's next start states which ids came before it.

const STARTS_FILE_NAME = "starts.json";
/** Older starts are forgotten: a client that has missed so many settles no job here any more. */
const STARTS_MAX = 64;

/** A start of a server: its id, and the first job id that it could give. */
type Start = readonly [id: string, firstJobId: number];

interface StartsFile {
  /** Newest first. */
  starts: readonly Start[];
}

const SERVER_ID = /^[\w-]{1,64}$/;
const isFirstId = isInteger(1);
const isStart = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 2 && SERVER_ID.test(`${value[0]}`) && isFirstId(value[1]);
const STARTS_CHECKS: FieldChecks<StartsFile> = {
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
    replaceWhole(disk, STARTS_FILE_NAME, ".new", encodeChecked({ starts }));
    return starts;
  } catch (error) {
    warn(`${disk.path}/${STARTS_FILE_NAME} cannot be written: ${(error as Error).message}; ${CONSEQUENCE}`);
    forgetStarts(disk);
    return [own];
  }
}

const CONSEQUENCE = "workers can't finish jobs that they reserved before this start";

function readStarts(disk: Disk, warn: (message: string) => void): readonly Start[] {
  if (!disk.names().includes(STARTS_FILE_NAME)) return [];
  try {
    return readChecked(disk, STARTS_FILE_NAME, STARTS_CHECKS, "").starts;
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof BinlogError)) throw error;
    warn(`${disk.path}/${STARTS_FILE_NAME} is damaged and was replaced; ${CONSEQUENCE}`);
    return [];
  }
}

/**
 * Forgets the servers that have used the directory: its jobs come from elsewhere from now on, or a
 * start could not be added.
 */
export function forgetStarts(disk: Disk): void {
  try {
    if (disk.names().includes(STARTS_FILE_NAME)) disk.unlink(STARTS_FILE_NAME);
  } catch {
    // Then the disk takes no jobs, either.
  }
}
