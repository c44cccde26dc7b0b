// Files that take turns in `npm test`: whole runs play all, and so do runs that name them.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { drawnSeed } from "../seeded-random.ts";
import { hasTurn } from "../whole.ts";
import { isOneOf } from "./files.ts";

/**
 * Each run plays one of `of` files of a row, which are much alike: the n-th of a row, those `of`
 * places later, and so on.
 */
const ROWS: readonly { readonly of: 2 | 3; readonly files: readonly string[] }[] = [];

/**
 * Divisible by how many take turns anywhere, times how many of the file's own tests do, so that each
 * is as likely as the others.
 */
const TURNS = 360;

const rowOf = (file: string) => ROWS.find(({ files }) => isOneOf(files, file));

/** Returns whether a file has its turn in the run of that number. */
export function fileHasTurn(file: string, turn: number): boolean {
  const row = rowOf(file);
  return (
    row === undefined ||
    hasTurn(
      row.files.findIndex((name) => isOneOf([name], file)),
      row.of,
      turn,
    )
  );
}

/**
 * Number of the run for the tests of a file that take turns: it counts only runs that play the file,
 * or some of its tests would never meet their turn.
 */
export const turnIn = (file: string, turn: number): number => Math.floor(turn / (rowOf(file)?.of ?? 1));

/**
 * The number after that of the last run, kept in `place`; the first is drawn. So everything is
 * played within a few runs.
 */
export function nextTurn(place: string): number {
  const turn = (lastTurn(place) ?? drawnSeed()) % TURNS;
  mkdirSync(dirname(place), { recursive: true });
  writeFileSync(place, `${turn + 1}`);
  return turn;
}

function lastTurn(place: string): number | undefined {
  try {
    const turn = Number.parseInt(readFileSync(place, "utf8"), 10);
    return Number.isSafeInteger(turn) && turn >= 0 ? turn : undefined;
  } catch {
    return undefined;
  }
}
