// How much a test plays. `npm test` leaves out some variants of what it plays, the same each time.
// Files that are named, or run by themselves, play all variants, `npm run test:whole` plays more
// rounds and seeds, too, and `npm run nightly` plays what takes longest (AT_NIGHT in run/files.ts).

const { TESTS } = process.env;
export const IS_NIGHT = TESTS === "night";
export const WHOLE = TESTS === "whole" || IS_NIGHT;
/** Set by `npm test` without arguments (test/run.ts). */
const IS_FAST = TESTS === "fast";

/** Returns how much to play: the first in whole runs. */
export const inWhole = <T>(whole: T, otherwise: T): T => (WHOLE ? whole : otherwise);

/** Returns how much to play: the first in the files that `npm run nightly` plays. */
export const atNight = <T>(night: T, otherwise: T): T => (IS_NIGHT ? night : otherwise);

/** The `skip` of a test that only `npm run nightly` plays, and a run that names its file. */
export const SKIP_UNTIL_NIGHT: string | false =
  TESTS === undefined || IS_NIGHT ? false : "not in every run: npm run nightly";

/** Why a file or a test is left out of a run. */
export const WHY_WHOLE_ONLY = "not in every run: npm run test:whole";

/** The `skip` of a test that takes long for what it finds. */
export const SKIP_IF_FAST: string | false = IS_FAST ? WHY_WHOLE_ONLY : false;

/**
 * The `skip` of a variant of a test at place `index`: `npm test` plays the first of each `of`, as
 * the others would find nearly the same.
 */
export const skipVariant = (index: number, of: number): string | false =>
  index % of === 0 ? false : SKIP_IF_FAST;

/** The cases of one test that `npm test` plays: every second one. */
export const everySecond = <T>(cases: readonly T[]): readonly T[] =>
  cases.filter((_, index) => skipVariant(index, 2) === false);
