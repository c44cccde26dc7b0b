import assert from "node:assert/strict";
import { test } from "node:test";
import { latin1 } from "../../../src/base/bytes.ts";
import { WorkerNames } from "../../../src/ring/connection-words.ts";

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
