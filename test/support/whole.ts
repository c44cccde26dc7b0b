// `npm run test:whole` plays more of the same than `npm test`: CI has the time for it.

export const WHOLE = process.env["TESTS"] === "whole";

/** Returns how much to play: the first in whole runs. */
export const inWhole = <T>(whole: T, otherwise: T): T => (WHOLE ? whole : otherwise);

/** Why a file or a test is left out of a run. */
export const WHY_WHOLE_ONLY = "not in every run: npm run test:whole";

/** Why a file is left out of this run, but in one of the next two (run/turns.ts). */
export const WHY_LATER = "in one of the next two runs, as in npm run test:whole";

/**
 * Number of a run, set by `npm test` without arguments. Without it everything is played: in whole
 * runs, and in files that are named or run by themselves.
 */
const { TURN } = process.env;
if (TURN !== undefined && !/^\d+$/.test(TURN))
  throw new Error(`TURN=${TURN}: the number of a run is meant, as in TURN=7`);

/** Whether it is the turn of that place among `of` in the run of that number. */
export const hasTurn = (index: number, of: number, turn: number): boolean => (index + turn) % of === 0;

/**
 * The `skip` of a test that takes turns with its neighbours: one in `of` runs plays it. `index` is
 * its place among them.
 */
export const outOfTurn = (index: number, of: number): string | false =>
  WHOLE || TURN === undefined || hasTurn(index, of, Number(TURN)) ? false : WHY_WHOLE_ONLY;

/** The cases of one test that have their turn: every second one, and where all is played, all. */
export const inTurn = <T>(cases: readonly T[]): readonly T[] =>
  cases.filter((_, index) => outOfTurn(index, 2) === false);
