// Tests of the log's index against a map, and of the cost of a job that survives many others.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RecordIndex, SegmentTable } from "../../src/binlog/segments/books.ts";
import { SeededRandom } from "../support/seeded-random.ts";

function emptyIndex(): { index: RecordIndex; table: SegmentTable } {
  const table = new SegmentTable();
  const segment = { number: 1, salt: 0, createdAtMs: 0, sealed: false, handle: undefined };
  table.add({ ...segment, fileBytes: 0, usedBytes: 0, liveBytes: 0 });
  return { index: new RecordIndex(table), table };
}

test("the index matches a map for random puts, changes and deletes", () => {
  const seed = 7;
  const random = new SeededRandom(seed);
  const { index, table } = emptyIndex();
  const model = new Map<number, { offset: number; update: number }>();
  for (let step = 1; step <= 50_000; step++) {
    const id = 1 + random.below(random.chance(0.5) ? 40 : 3000);
    const wish = random.below(10);
    if (wish < 4) {
      index.setFull(id, 1, step, 100, 0);
      model.set(id, { offset: step, update: 0 });
    } else if (wish < 6) {
      assert.equal(index.setUpdate(id, 1, step), model.has(id), `seed ${seed}, step ${step}`);
      if (model.has(id)) model.get(id)!.update = step;
    } else assert.equal(index.remove(id), model.delete(id), `seed ${seed}, step ${step}`);
  }
  assert.equal(index.jobs, model.size);
  assert.equal(table.liveBytes, 100 * model.size);
  for (let id = 1; id <= 3000; id++)
    assert.equal(index.fullSegmentOf(id), model.has(id) ? 1 : 0, `seed ${seed}, id ${id}`);
  for (const [id, { offset, update }] of model) {
    assert.ok(index.fullIsAt(id, 1, offset));
    assert.equal(index.updateSegmentOf(id), update === 0 ? 0 : 1);
    if (update > 0) assert.equal(index.updateOffsetOf(id), update);
  }
});

test("one remaining job of 4096 costs less than 4 KB", () => {
  const { index } = emptyIndex();
  const before = process.memoryUsage().arrayBuffers;
  const jobs = 3000;
  for (let i = 1; i <= jobs; i++) index.setFull(i * 4096, 1, i, 100, 0);
  const bytes = (process.memoryUsage().arrayBuffers - before) / jobs;
  assert.equal(index.jobs, jobs);
  assert.ok(bytes < 4096, `${Math.round(bytes)} bytes`);
});
