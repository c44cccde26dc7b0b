// Tests of the time until which a server of a group may serve, against plain arithmetic, and when
// the clock's int32 wraps, every 25 days.

import assert from "node:assert/strict";
import { it } from "node:test";
import { LeaseWord } from "../../../src/ring/monotonic-clock.ts";

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
