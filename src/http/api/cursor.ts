// Opaque cursors that mark where a list continues.

import { Problem } from "./problem.ts";

export function encodeCursor(values: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(values)).toString("base64url");
}

/**
 * Returns the values of a cursor. Throws a Problem unless they have these types and all numbers are
 * non-negative safe integers.
 */
export function decodeCursor(cursor: string, types: readonly ("string" | "number")[]): (string | number)[] {
  let values: unknown;
  try {
    values = JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    values = undefined;
  }
  if (
    !Array.isArray(values) ||
    values.length !== types.length ||
    values.some((value, at) => typeof value !== types[at] || (typeof value === "number" && !isPlace(value)))
  )
    throw new Problem("bad-cursor", "Start the list again, without a cursor.");
  return values as (string | number)[];
}

const isPlace = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
