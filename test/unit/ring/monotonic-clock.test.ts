// Tests that the shared clock is right even for a thread that was held up during its start.

import assert from "node:assert/strict";
import { it, test } from "node:test";
import {
  clockOffsetMs,
  hasPaused,
  Lease,
  LeaseWord,
  monotonicMs,
} from "../../../src/ring/monotonic-clock.ts";

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

// Tests of the time until which a server of a group may serve, against plain arithmetic, and when
// the clock's int32 wraps, every 25 days.

const WRAPS_MS = [0, 2 ** 31, 2 ** 32, 3 * 2 ** 31, 2 ** 33];
const LEASES_MS = [1, 10, 5000, 60_000, 3_600_000];

it("a lease is over exactly at its end, on each side of a wrap of the clock", () => {
  for (const wrapMs of WRAPS_MS)
    for (const leaseMs of LEASES_MS)
      for (const beforeMs of [-leaseMs - 1, -leaseMs, -1, 0, 1, leaseMs]) {
        const nowMs = wrapMs + beforeMs;
        const words = new Int32Array(3).fill(12345);
        const lease = new LeaseWord(words, 1);
        lease.publish(nowMs + leaseMs);
        const name = `${leaseMs} ms at ${nowMs}`;
        assert.ok(!lease.isOver(nowMs), name);
        assert.ok(!lease.isOver(nowMs + leaseMs - 1), `${name}: a moment before its end`);
        assert.ok(lease.isOver(nowMs + leaseMs), `${name}: at its end`);
        assert.ok(lease.isOver(nowMs + leaseMs + 1), `${name}: after its end`);
        assert.ok(lease.isOver(nowMs + leaseMs + 86_400_000), `${name}: a day later`);
        assert.deepEqual([words[0], words[2]], [12345, 12345], "the words beside it are not its own");
      }
});

it("a lease is never longer than it was given, whatever the fraction of its end", () => {
  const lease = new LeaseWord(new Int32Array(1), 0);
  lease.publish(1000.9);
  assert.ok(!lease.isOver(999));
  assert.ok(lease.isOver(1000.9));
  assert.ok(lease.isOver(1000), "rounded down");
});

const DAY_MS = 86_400_000;
/** Wall clock, ms. */
const WALL_MS = Date.UTC(2026, 0, 1);

function lease() {
  const clock = { wallMs: WALL_MS };
  const words = new Int32Array(new SharedArrayBuffer(8));
  return { clock, lease: new Lease(words, 0, 1, () => clock.wallMs) };
}

test("a lease is over at its end, also after 25 days, when the word has wrapped", () => {
  for (const nowMs of [1000, 24.8 * DAY_MS, 25 * DAY_MS, 50 * DAY_MS, 400 * DAY_MS]) {
    const word = new LeaseWord(new Int32Array(1), 0);
    word.publish(nowMs + 3000);
    assert.equal(word.isOver(nowMs + 2998), false);
    assert.equal(word.isOver(nowMs + 3000), true, "to the millisecond");
    assert.equal(word.isOver(nowMs + 3001), true);
  }
});

test("a lease is over by the wall clock even if the monotonic clock stood still", () => {
  const { clock, lease: each } = lease();
  each.publish(5000, WALL_MS + 3000);
  assert.equal(each.isOver(2000), false);
  clock.wallMs += 10_000;
  assert.equal(each.isOver(2001), true, "the machine was suspended for ten seconds");
  each.publish(5001, clock.wallMs + 3000);
  assert.equal(each.isOver(2002), false, "what was sent after that renews it");
});

test("a wall clock that is set back or corrected a little ends no lease", () => {
  const { clock, lease: each } = lease();
  each.publish(5000, WALL_MS + 3000);
  clock.wallMs += 3200;
  assert.equal(each.isOver(4999), false);
  clock.wallMs -= 3_600_000;
  assert.equal(each.isOver(4999), false);
  assert.equal(each.isOver(5000), true, "the monotonic clock counts all the same");
});

test("a pause is a wall clock that went on alone", () => {
  assert.equal(hasPaused(1000, 1000), false);
  assert.equal(hasPaused(1100, 1000), false);
  assert.equal(hasPaused(1250, 1000), false, "as far as a correction may go");
  assert.equal(hasPaused(1251, 1000), true);
  assert.equal(hasPaused(2000, 1000), true);
  assert.equal(hasPaused(1000, 2000), false);
});
