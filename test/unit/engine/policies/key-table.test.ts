// Tests of the table of unique keys against a map, with colliding hashes and growing parts; and of
// the cost of a key.

import assert from "node:assert/strict";
import { it, test } from "node:test";
import { BodyArena } from "../../../../src/engine/jobs/body-arena.ts";
import {
  hashOf,
  KeyTable,
  NO_HOLDER,
  NO_ROW,
  type TubeKey,
} from "../../../../src/engine/policies/key-table.ts";
import { memoryInUse, settledBytes } from "../../../support/machine/memory-in-use.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { SKIP_UNTIL_NIGHT } from "../../../support/whole.ts";

function keyOf(tube: string, key: string): TubeKey {
  // Somewhere in other bytes, as in a message.
  const bytes = Buffer.from(`##${key}#`, "latin1");
  return { tube: Buffer.from(tube), bytes, start: 2, end: bytes.length - 1 };
}

const KEYS = 1_000_000;
const UNTIL_MS_MAX = 999;

interface Row {
  row: number;
  slot: number;
  id: number;
  untilMs: number;
}

/** One run of random calls; throws at the first difference from a map. */
function run(seed: number, steps: number, table: KeyTable): Map<string, Row> {
  const random = new SeededRandom(seed);
  const model = new Map<string, Row>();
  /** Keys without a job, by their time. */
  const free = new Uint32Array(UNTIL_MS_MAX + 1);
  const where = (step: number): string => `seed ${seed}, step ${step}`;
  for (let step = 1; step <= steps; step++) {
    const tube = random.pick(["a", "ab", "mails"])!;
    // "a" with key "bc" and "ab" with key "c" are two.
    const text = random.pick(["", "b", "x".repeat(199)])! + String(random.below(400));
    const name = `${tube} ${text}`;
    const key = keyOf(tube, text.slice(0, 200));
    const known = model.get(`${tube} ${text.slice(0, 200)}`);
    assert.equal(table.find(key), known?.row ?? NO_ROW, `${where(step)}: ${name}`);
    if (known === undefined) {
      const held = random.chance(0.6);
      const untilMs = random.between(1, UNTIL_MS_MAX);
      const added = { slot: held ? random.below(1e6) : NO_HOLDER, id: step, untilMs };
      const row = table.add(key, added.slot, added.id, untilMs);
      if (!held) free[untilMs]!++;
      model.set(`${tube} ${text.slice(0, 200)}`, { row, ...added });
    } else if (random.chance(0.4)) {
      table.remove(known.row);
      if (known.slot === NO_HOLDER) free[known.untilMs]!--;
      model.delete(`${tube} ${text.slice(0, 200)}`);
    } else if (known.slot === NO_HOLDER) {
      known.slot = random.below(1e6);
      known.id = step;
      table.hold(known.row, known.slot, known.id);
      free[known.untilMs]!--;
    } else {
      table.letGo(known.row);
      known.slot = NO_HOLDER;
      free[known.untilMs]!++;
    }
    assert.equal(table.size, model.size, where(step));
    const next = free.findIndex((keys) => keys > 0);
    assert.equal(table.nextAtMs, next < 0 ? Number.POSITIVE_INFINITY : next, where(step));
  }
  return model;
}

test("random keys match a map", () => {
  const arena = new BodyArena();
  const table = new KeyTable(arena, [0x12345678, 0x9abcdef0]);
  const model = run(7, 20_000, table);
  assert.ok(model.size > 200);
  for (const [name, { row, slot, id, untilMs }] of model) {
    const cell = table.cellOf(row);
    const tube = Buffer.from(cell.subarray(2, 2 + cell[0]!)).toString();
    const key = Buffer.from(cell.subarray(2 + cell[0]!)).toString("latin1");
    assert.equal(`${tube} ${key}`, name);
    assert.deepEqual([table.slotOf(row), table.idOf(row), table.untilOf(row)], [slot, id, untilMs]);
  }
});

test("keys without a job are forgotten in the order of their times", () => {
  const random = new SeededRandom(3);
  const table = new KeyTable(new BodyArena());
  for (let i = 0; i < 3000; i++) table.add(keyOf("t", `k${i}`), NO_HOLDER, i + 1, random.below(500));
  let last = 0;
  for (let left = 3000; left > 0; left--) {
    assert.ok(table.nextAtMs >= last);
    last = table.nextAtMs;
    table.remove(table.next);
  }
  assert.equal(table.size, 0);
  assert.equal(table.nextAtMs, Number.POSITIVE_INFINITY);
});

test("keys with the same hash are distinct", () => {
  // Eight places in a part: among 200 keys many meet.
  const table = new KeyTable(new BodyArena());
  const rows = new Set<number>();
  for (let i = 0; i < 200; i++) rows.add(table.add(keyOf("t", `k${i}`), i, i + 1, 0));
  assert.equal(rows.size, 200);
  for (let i = 0; i < 200; i++) assert.equal(table.slotOf(table.find(keyOf("t", `k${i}`))), i);
  assert.equal(table.find(keyOf("t", "k200")), NO_ROW);
});

test("it reports when it is full", () => {
  const table = new KeyTable(new BodyArena(), [1, 2], 10);
  for (let i = 0; i < 10; i++) {
    assert.ok(!table.isFull);
    table.add(keyOf("t", `k${i}`), i, i + 1, 0);
  }
  assert.ok(table.isFull);
  table.remove(table.find(keyOf("t", "k3")));
  assert.ok(!table.isFull);
});

test(`${KEYS} remembered keys of 24 bytes cost at most 80 bytes each, and the memory is freed`, () => {
  const arena = new BodyArena();
  const table = new KeyTable(arena);
  // Other tests' garbage may take a while to be freed.
  const before = settledBytes(0, memoryInUse);
  const keys = KEYS;
  const tube = Buffer.from("mails");
  const bytes = Buffer.from("welcome:user-000000000000");
  const key: TubeKey = { tube, bytes, start: 0, end: 24 };
  for (let i = 0; i < keys; i++) {
    bytes.write(String(i).padStart(12, "0"), 12, "latin1");
    table.add(key, NO_HOLDER, i + 1, 1000 + (i % 977));
  }
  const perKey = settledBytes(80 * keys, () => memoryInUse() - before) / keys;
  assert.equal(table.size, keys);
  console.log(`${perKey.toFixed(1)} bytes a key`);
  assert.ok(perKey <= 80, `${perKey.toFixed(1)} bytes`);
  for (let i = 0; i < keys; i++) table.remove(table.next);
  const limit = 2 << 20;
  assert.ok(settledBytes(limit, () => memoryInUse() - before) < limit, "it is given back");
});

test("keys are found and removed if a part has more places than an entry has hash bits", () => {
  const table = new KeyTable(new BodyArena(), [5, 6]);
  const keys = 420_000;
  const bytes = Buffer.alloc(4);
  const key: TubeKey = { tube: Buffer.from("t"), bytes, start: 0, end: 4 };
  for (let i = 0; i < keys; i++) {
    bytes.writeUInt32LE(i);
    assert.equal(table.add(key, i, i + 1, 0), i);
  }
  for (let step = 0; step < keys; step++) {
    // In another order than they came.
    const i = (step * 7919) % keys;
    bytes.writeUInt32LE(i);
    if (table.find(key) !== i) assert.fail(`key ${i} is not found, step ${step}`);
    table.remove(i);
    if (table.find(key) !== NO_ROW) assert.fail(`key ${i} is still found, step ${step}`);
  }
  assert.equal(table.size, 0);
});

// A shard gets the keys of several others from the log when there are fewer of them than before.
test("keys are found and removed after a start with more than two million", {
  skip: SKIP_UNTIL_NIGHT,
}, () => {
  const table = new KeyTable(new BodyArena(), [7, 8]);
  const keys = (1 << 21) + 1000;
  const bytes = Buffer.alloc(4);
  const key: TubeKey = { tube: Buffer.from("t"), bytes, start: 0, end: 4 };
  const rowOf = (i: number): number => {
    bytes.writeUInt32LE(i);
    return table.find(key);
  };
  for (let i = 0; i < keys; i++) {
    bytes.writeUInt32LE(i);
    table.add(key, i, i + 1, 0);
  }
  assert.equal(table.size, keys);
  assert.ok(table.isFull);
  for (let i = 0; i < keys; i += i < keys - 3000 ? 997 : 1) assert.equal(rowOf(i), i);
  assert.equal(rowOf(keys), NO_ROW);
  for (let i = 0; i < keys; i += 3) table.remove(i);
  for (let i = 0; i < keys; i += i < keys - 3000 ? 997 : 1) assert.equal(rowOf(i), i % 3 === 0 ? NO_ROW : i);
  for (let i = 0; i < keys; i++) if (i % 3 !== 0) table.remove(i);
  assert.equal(table.size, 0);
  assert.equal(table.add(key, 1, 1, 0), table.find(key));
});

// Test of the hash of unique keys: the vectors of HalfSipHash-1-3 in Linux (lib/test_siphash.c).

const VECTORS = [
  0x5814c896, 0xe7e864ca, 0xbc4b0e30, 0x01539939, 0x7e059ea6, 0x88e3d89b, 0xa0080b65, 0x9d38d9d6, 0x577999b1,
  0xc839caed, 0xe4fa32cf, 0x959246ee, 0x6b28096c, 0x66dd9cd6, 0x16658a7c, 0xd0257b04,
];

it("the hash of a key is HalfSipHash-1-3, wherever the key begins", () => {
  for (const start of [0, 3]) {
    const bytes = Uint8Array.from({ length: start + VECTORS.length + 1 }, (_, at) => at - start);
    const hashes = VECTORS.map((_, length) => hashOf(bytes, start, start + length, 0x03020100, 0x07060504));
    assert.deepEqual(hashes, VECTORS);
  }
});
