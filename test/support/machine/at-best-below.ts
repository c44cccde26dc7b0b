// A time limit that a busy machine can't exceed: what is slow because of the server is slow each
// time, and what is slow because of other programs is not.

import assert from "node:assert/strict";

const ATTEMPTS = 5;

/** Acts until one attempt takes less than `limitMs`, by what it returns; fails if none does. */
export async function atBestBelow(limitMs: number, act: () => Promise<number>): Promise<void> {
  const took: number[] = [];
  while (took.length < ATTEMPTS) {
    const ms = await act();
    if (ms < limitMs) return;
    took.push(Math.round(ms));
  }
  assert.fail(`not below ${limitMs} ms: ${took.join(", ")} ms`);
}
