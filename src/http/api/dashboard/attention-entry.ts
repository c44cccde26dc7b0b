// An entry of the list "Needs attention", and the words that its rules share.

import type { Attention } from "../../../dashboard/parts/view-types.ts";

export type Found = Attention & { readonly weight: number };

/** Number of tubes, batches or schedules that each rule names. */
const LISTED = 2;

/** Returns the first ones, which are named; one more rather than "1 more". */
export const listed = <T>(all: readonly T[], count: number = all.length): readonly T[] =>
  all.slice(0, count === LISTED + 1 ? count : LISTED);

export const EXACT: Intl.NumberFormat = new Intl.NumberFormat("en");

export function inWords(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}
