// Tests of the counts of connections: in total and per address.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CONNECTION_COUNTS_BYTES, ConnectionCounts } from "../../../src/ring/connection-words.ts";

const counts = (): ConnectionCounts =>
  new ConnectionCounts(new SharedArrayBuffer(CONNECTION_COUNTS_BYTES), 7);

describe("ConnectionCounts", () => {
  it("admits as many as allowed, in total and from an address", () => {
    const all = counts();
    assert.deepEqual(
      [1, 2, 3].map(() => all.enter(2)),
      [true, true, false],
    );
    all.leave();
    assert.deepEqual(
      [1, 2].map(() => all.enter(2)),
      [true, false],
    );
    assert.deepEqual(
      [1, 2, 3].map(() => all.enterFrom("192.0.2.1", 2)),
      [true, true, false],
    );
    assert.ok(all.enterFrom("192.0.2.2", 2));
    all.leaveFrom("192.0.2.1");
    assert.deepEqual(
      [1, 2].map(() => all.enterFrom("192.0.2.1", 2)),
      [true, false],
    );
  });

  it("counts nothing any more once all have left or were refused", () => {
    const buffer = new SharedArrayBuffer(CONNECTION_COUNTS_BYTES);
    const all = new ConnectionCounts(buffer, 7);
    assert.ok(all.enter(1) && !all.enter(1));
    assert.ok(all.enterFrom("192.0.2.1", 1) && !all.enterFrom("192.0.2.1", 1));
    all.leave();
    all.leaveFrom("192.0.2.1");
    assert.ok(new Int32Array(buffer).every((count) => count === 0));
  });

  it("counts an address in other words with another seed, also if it is 0", () => {
    const wordsOf = (seed: number): string => {
      const buffer = new SharedArrayBuffer(CONNECTION_COUNTS_BYTES);
      new ConnectionCounts(buffer, seed).enterFrom("192.0.2.1", 1);
      const used = [...new Int32Array(buffer).entries()].filter(([, count]) => count > 0);
      assert.deepEqual(
        used.map(([, count]) => count),
        [1, 1, 1, 1],
      );
      const columns = used.map(([word]) => (word - 1) % 2 ** 14);
      assert.ok(new Set(columns).size > 1, "rows differ");
      assert.deepEqual(
        used.map(([word]) => Math.floor((word - 1) / 2 ** 14)),
        [0, 1, 2, 3],
      );
      return columns.join(" ");
    };
    const seeds = [0, 1, 2, 7, 2 ** 31, -1, 123_456_789];
    assert.equal(new Set(seeds.map(wordsOf)).size, seeds.length);
  });

  it("seldom takes one address for another", () => {
    const ADDRESSES = 5000;
    // All four words of an address are taken with a probability of 0.005.
    const REFUSED_MAX = 60;
    for (const nameOf of [
      (n: number) => `10.0.${n >> 8}.${n & 255}`,
      (n: number) => `2001:db8::${n.toString(16)}`,
      (n: number) => `${n}`,
    ]) {
      const all = counts();
      let refused = 0;
      for (let n = 0; n < ADDRESSES; n++) if (!all.enterFrom(nameOf(n), 1)) refused++;
      assert.ok(refused <= REFUSED_MAX, `${refused} of ${ADDRESSES} refused, such as ${nameOf(0)}`);
    }
  });
});
