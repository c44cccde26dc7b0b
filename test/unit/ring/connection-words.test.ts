import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { latin1 } from "../../../src/base/bytes.ts";
import {
  ClaimWords,
  CONNECTION_COUNTS_BYTES,
  ConnectionCounts,
  WorkerNames,
} from "../../../src/ring/connection-words.ts";

test("a name is read as text, and a slot that never had one stays untouched", () => {
  const buffer = new SharedArrayBuffer(WorkerNames.bytesFor(2));
  assert.equal(buffer.byteLength, 2 * 68);
  const names = new WorkerNames(buffer);
  assert.equal(names.text(1), "");
  names.set(1, "w\xffrker");
  names.set(0, "a");
  assert.deepEqual([names.text(0), names.text(1)], ["a", "w\xffrker"]);
  const words = new Int32Array(buffer);
  const before = words[0];
  names.set(0, "a");
  assert.notEqual(words[0], before, "a reader may have read half of it");
  names.set(0, "");
  const without = words[0];
  assert.equal(names.text(0), "");
  names.set(0, "");
  assert.equal(words[0], without, "most workers have no name");
});

test("a reader never gets half of a name that changes meanwhile", (t) => {
  const buffer = new SharedArrayBuffer(WorkerNames.bytesFor(2));
  const names = new WorkerNames(buffer);
  names.set(1, "before");
  const seen = new Set<string>();
  const store = Atomics.store;
  const stores = t.mock.method(Atomics, "store", (...args: Parameters<typeof store>) => {
    const value = store(...args);
    seen.add(names.text(1));
    return value;
  });
  names.set(1, "afterwards");
  stores.mock.restore();
  assert.deepEqual([...seen], ["", "afterwards"], "none while it changes");
  const load = Atomics.load;
  let loads = 0;
  t.mock.method(Atomics, "load", (...args: Parameters<typeof load>) => {
    if (++loads === 4) names.set(1, "later");
    return load(...args);
  });
  const into = new Uint8Array(70).fill(0xaa);
  const length = names.read(1, into, 5);
  assert.equal(latin1(into, 5, 5 + length), "later");
});

test("a name is copied to its place, and nothing beside it is touched", () => {
  const names = new WorkerNames(new SharedArrayBuffer(WorkerNames.bytesFor(2)));
  names.set(0, "first");
  names.set(1, "second");
  names.set(0, "1st");
  const into = new Uint8Array(12).fill(0xaa);
  assert.equal(names.read(0, into, 5), 3);
  assert.equal(latin1(into, 4, 9), "\xaa1st\xaa");
});

test("a table of names gives each slot its own, cut to 63 bytes, and never half of one", () => {
  const buffer = new SharedArrayBuffer(WorkerNames.bytesFor(3));
  const names = new WorkerNames(buffer);
  const read = (slot: number): string => {
    const into = new Uint8Array(70);
    return latin1(into, 5, 5 + new WorkerNames(buffer).read(slot, into, 5));
  };
  assert.equal(read(1), "");
  names.set(0, "x".repeat(200));
  names.set(1, "w\xffrker");
  names.set(2, "z");
  assert.deepEqual([0, 1, 2].map(read), ["x".repeat(63), "w\xffrker", "z"]);
  for (let n = 0; n < 1000; n++) names.set(1, "n".repeat(n % 64));
  assert.deepEqual([0, 1, 2].map(read), ["x".repeat(63), "n".repeat(39), "z"]);
  names.set(1, "");
  assert.equal(read(1), "");
  // The word of a change that has begun is odd: the reader gives up.
  names.set(1, "whole");
  Atomics.add(new Int32Array(buffer), 17, 0x100);
  assert.equal(read(1), "");
});

const words = (): ClaimWords => new ClaimWords(new SharedArrayBuffer(16));

it("ClaimWords lets exactly one end a wait", () => {
  const claims = words();
  assert.equal(claims.length, 4);
  claims.open(2, 7);
  assert.equal(claims.isOpen(2, 7), true);
  assert.equal(claims.claim(2, 7), true);
  assert.equal(claims.claim(2, 7), false);
  assert.equal(claims.isOpen(2, 7), false);
});

it("ClaimWords refuses the number of an earlier wait and keeps the present one open", () => {
  const claims = words();
  claims.open(0, 1);
  claims.claim(0, 1);
  claims.open(0, 2);
  assert.equal(claims.claim(0, 1), false);
  assert.equal(claims.isOpen(0, 1), false);
  assert.equal(claims.isOpen(0, 2), true);
});

it("ClaimWords keeps slots apart", () => {
  const claims = words();
  claims.open(1, 5);
  assert.equal(claims.claim(0, 5), false);
  assert.equal(claims.claim(2, 5), false);
  assert.equal(claims.claim(1, 5), true);
});

// Tests of the counts of connections: in total and per address.

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
