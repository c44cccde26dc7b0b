// Tests that the shared clock is right even for a thread that was held up during its start.

import assert from "node:assert/strict";
import { it } from "node:test";
import { clockOffsetMs } from "../../../src/ring/monotonic-clock.ts";

const THREAD_STARTED_AT_MS = 1_000_000;
const LOOK_MS = 0.001;

/**
 * A machine's clock that stands still but for looks at it, and for the hold-up before the look of
 * that number.
 */
function clocks(heldUpMs: (look: number) => number): Parameters<typeof clockOffsetMs> {
  let nowMs = THREAD_STARTED_AT_MS + 500;
  let looks = 0;
  const look = (): number => {
    nowMs += LOOK_MS + heldUpMs(++looks);
    return nowMs;
  };
  return [look, () => look() - THREAD_STARTED_AT_MS];
}

for (const [when, heldUpMs] of [
  ["never", () => 0],
  ["between its first two looks", (look) => (look === 2 ? 284 : 0)],
  ["before its third look", (look) => (look === 3 ? 284 : 0)],
  ["more often than not", (look) => (look % 7 < 5 && look < 140 ? 20 : 0)],
] as const satisfies readonly (readonly [string, (look: number) => number])[]) {
  it(`a thread that is delayed ${when} knows the machine's clock`, () => {
    const offsetMs = clockOffsetMs(...clocks(heldUpMs));
    assert.ok(
      Math.abs(offsetMs - THREAD_STARTED_AT_MS) < 0.01,
      `${offsetMs - THREAD_STARTED_AT_MS} ms wrong`,
    );
  });
}
