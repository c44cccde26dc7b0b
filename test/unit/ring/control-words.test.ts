// Tests of the count of memory that all shards share, and of its limit.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MEMORY_PAGE_BYTES, MemoryWords } from "../../../src/ring/control-words.ts";

const words = (): MemoryWords => new MemoryWords(new Int32Array(new SharedArrayBuffer(12)), 0, 1, 2);

describe("MemoryWords", () => {
  it("has no limit until one is set, and rounds it down to whole pages", () => {
    const memory = words();
    assert.equal(memory.limitBytes, Number.POSITIVE_INFINITY);
    assert.ok(memory.claim(1000));
    assert.ok(!memory.isFull);
    memory.limitBytes = 2000 * MEMORY_PAGE_BYTES + 5;
    assert.equal(memory.limitBytes, 2000 * MEMORY_PAGE_BYTES);
    memory.limitBytes = Number.POSITIVE_INFINITY;
    assert.equal(memory.limitBytes, Number.POSITIVE_INFINITY);
    assert.ok(memory.claim(1_000_000));
  });

  it("grants claims up to the limit, to the page", () => {
    const memory = words();
    memory.limitBytes = 10 * MEMORY_PAGE_BYTES;
    assert.ok(memory.claim(9));
    assert.ok(!memory.claim(2));
    assert.ok(memory.claim(1));
    assert.ok(!memory.claim(1));
    assert.equal(memory.usedPages, 10);
    memory.give(4);
    assert.equal(memory.usedBytes, 6 * MEMORY_PAGE_BYTES);
    assert.ok(memory.claim(4));
  });

  it("is full when a limit is set below what is used, or more is taken than it allows", () => {
    const memory = words();
    memory.take(100);
    memory.limitBytes = 100 * MEMORY_PAGE_BYTES;
    assert.ok(!memory.isFull);
    memory.limitBytes = 99 * MEMORY_PAGE_BYTES;
    assert.ok(memory.isFull);
    const other = words();
    other.limitBytes = 100 * MEMORY_PAGE_BYTES;
    other.take(100);
    assert.ok(!other.isFull);
    other.take(1);
    assert.ok(other.isFull);
    const small = words();
    small.limitBytes = MEMORY_PAGE_BYTES;
    small.take(2);
    assert.ok(small.isFull, "a limit of one page");
    const late = words();
    late.take(2);
    late.limitBytes = MEMORY_PAGE_BYTES;
    assert.ok(late.isFull, "the same, set later");
  });

  it("grants no page twice to two threads that claim at the same moment", (t) => {
    const memory = words();
    memory.limitBytes = 10 * MEMORY_PAGE_BYTES;
    const real = Atomics.compareExchange;
    let others = [7, 0];
    t.mock.method(Atomics, "compareExchange", (...args: Parameters<typeof real>) => {
      const pages = others.shift() ?? 0;
      if (pages > 0) memory.take(pages);
      return real(...args);
    });
    assert.ok(memory.claim(3), "seven and three");
    assert.equal(memory.usedPages, 10);
    memory.give(5);
    others = [3];
    assert.ok(!memory.claim(3), "only two are left");
    assert.equal(memory.usedPages, 8);
  });

  it("takes jobs again only below 98 % of the limit", () => {
    const memory = words();
    memory.limitBytes = 100 * MEMORY_PAGE_BYTES;
    assert.ok(memory.claim(100));
    memory.noteFull();
    memory.give(1);
    assert.ok(memory.isFull);
    memory.give(1);
    assert.ok(!memory.isFull);
    assert.ok(memory.claim(2));
    assert.ok(!memory.isFull, "it is full when someone was refused, not before");
  });
});
