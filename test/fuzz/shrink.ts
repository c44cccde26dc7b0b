// Shrinks failing input: delta debugging over the pieces, then over the lines of each, then over
// their characters.

import { shorten } from "../support/shorten.ts";
import type { Piece } from "./piece.ts";

/** Returns whether an input still fails. */
type Fails = (pieces: readonly Piece[]) => Promise<boolean>;

interface ShrinkLimits {
  /** Inputs tried at most. */
  readonly tries: number;
  readonly ms: number;
}

class OutOfTries extends Error {}

/** The shortest input found that fails; `pieces` must. */
export async function shrink(
  pieces: readonly Piece[],
  fails: Fails,
  limits: ShrinkLimits,
): Promise<readonly Piece[]> {
  const deadline = performance.now() + limits.ms;
  let tries = 0;
  let best = pieces;
  const test = async (candidate: readonly Piece[]): Promise<boolean> => {
    if (++tries > limits.tries || performance.now() > deadline) throw new OutOfTries();
    const shorter = candidate.filter((piece) => piece.text !== "");
    if (shorter.length === 0 || !(await fails(shorter))) return false;
    best = shorter;
    return true;
  };
  try {
    for (let before = -1; before !== sizeOf(best); ) {
      before = sizeOf(best);
      await shorten(best, test);
      for (const unitsOf of [linesOf, charactersOf]) await shortenEach(() => best, unitsOf, test);
    }
  } catch (error) {
    if (!(error instanceof OutOfTries)) throw error;
  }
  return best;
}

const sizeOf = (pieces: readonly Piece[]): number =>
  pieces.reduce((sum, { text }) => sum + text.length, pieces.length);
const linesOf = (text: string): string[] => text.match(/.*?\r\n|.+$/gs) ?? [];
const charactersOf = (text: string): string[] => text.match(/(.)\1{63}|./gs) ?? [];

async function shortenEach(
  best: () => readonly Piece[],
  unitsOf: (text: string) => string[],
  test: Fails,
): Promise<void> {
  for (let index = 0; index < best().length; index++) {
    const piece = best()[index]!;
    const count = best().length;
    await shorten(unitsOf(piece.text), (units) =>
      best().length === count
        ? test(best().with(index, { ...piece, text: units.join("") }))
        : Promise.resolve(false),
    );
  }
}
