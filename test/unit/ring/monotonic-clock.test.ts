// Tests that the shared clock is right even for a thread that was held up during its start.

import assert from "node:assert/strict";
import { it } from "node:test";
import { clockOffsetMs, monotonicMs } from "../../../src/ring/monotonic-clock.ts";

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
  ["but for a moment", (look) => (look < 31 || look > 40 ? 20 : 0)],
] as const satisfies readonly (readonly [string, (look: number) => number])[]) {
  it(`a thread that is delayed ${when} knows the machine's clock`, () => {
    const offsetMs = clockOffsetMs(...clocks(heldUpMs));
    assert.ok(
      Math.abs(offsetMs - THREAD_STARTED_AT_MS) < 0.01,
      `${offsetMs - THREAD_STARTED_AT_MS} ms wrong`,
    );
  });
}

it("the shortest look counts, even if none is short", () => {
  const heldUpMs = (look: number): number => (look >= 31 && look <= 33 ? 0.1 : look % 3 === 2 ? 20 : 0);
  const offsetMs = clockOffsetMs(...clocks(heldUpMs));
  assert.ok(Math.abs(offsetMs - THREAD_STARTED_AT_MS) < 0.2, `${offsetMs - THREAD_STARTED_AT_MS} ms wrong`);
});

it("a clock that is never read quickly is measured all the same", () => {
  let nowMs = 0;
  let looks = 0;
  const look = (): number => {
    looks++;
    nowMs += 10;
    return nowMs;
  };
  const offsetMs = clockOffsetMs(look, () => look() - THREAD_STARTED_AT_MS);
  assert.equal(offsetMs, THREAD_STARTED_AT_MS);
  assert.ok(looks > 3 && looks <= 200, `${looks} looks`);
});

it("the clock of all threads is the machine's", () => {
  const machineMs = (): number => Number(process.hrtime.bigint()) / 1e6;
  for (let look = 0; look < 3; look++) {
    const beforeMs = machineMs();
    const nowMs = monotonicMs();
    const afterMs = machineMs();
    assert.ok(nowMs > beforeMs - 1 && nowMs < afterMs + 1, `${nowMs} between ${beforeMs} and ${afterMs}`);
  }
});
