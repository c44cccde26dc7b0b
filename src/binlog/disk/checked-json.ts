// Small JSON files beside the segments, with a checksum: a flipped digit would still be JSON.

import { crc32 } from "node:zlib";
import { BinlogError } from "./binlog-error.ts";
import type { Disk } from "./disk.ts";
import { readWhole } from "./whole-file.ts";

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
