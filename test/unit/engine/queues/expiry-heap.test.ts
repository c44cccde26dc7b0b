// Tests of the heap of expiring jobs against a sorted list; a page without such jobs allocates
// nothing for them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { JobState, JobTable, PAGE_ROWS, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { ExpiryHeap } from "../../../../src/engine/queues/job-heaps.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

test("the first job to expire is on top after any removals", () => {
  const random = new SeededRandom(5);
  const jobs = new JobTable();
  const heap = new ExpiryHeap(jobs);
  const list: { slot: number; atMs: number; id: number }[] = [];
  for (let step = 1; step <= 5000; step++) {
    if (list.length === 0 || random.chance(0.55)) {
      const slot = jobs.allocate();
      const page = jobs.pageOf(slot);
      const atMs = random.between(1, 300);
      page.id[rowOf(slot)] = step;
      page.state[rowOf(slot)] = JobState.Ready;
      page.makeExtras().expiresAtMs[rowOf(slot)] = atMs;
      heap.push(slot);
      list.push({ slot, atMs, id: step });
    } else {
      const [gone] = list.splice(random.below(list.length), 1);
      heap.remove(gone!.slot);
    }
    list.sort((a, b) => a.atMs - b.atMs || a.id - b.id);
    assert.equal(heap.size, list.length);
    assert.equal(heap.top, list[0]?.slot ?? -1);
    assert.equal(heap.soonestMs, list[0]?.atMs ?? Number.POSITIVE_INFINITY);
  }
});

test("extras cost nothing until a job of the page has some; one block stays for the next page", () => {
  const jobs = new JobTable();
  const slots = Array.from({ length: 2 * PAGE_ROWS + 1 }, () => jobs.allocate());
  assert.ok(jobs.pages.every((page) => page!.extras === undefined));
  const [first, second, last] = [slots[0]!, slots[PAGE_ROWS]!, slots[2 * PAGE_ROWS]!];
  const kept = jobs.pageOf(last).makeExtras();
  assert.equal(jobs.pageOf(first).extras, undefined);
  assert.equal(kept.expiresAtMs.buffer.byteLength, PAGE_ROWS * 36);
  jobs.free(last);
  const again = jobs.allocate();
  assert.equal(jobs.pageOf(again).extras, undefined);
  const another = jobs.pageOf(second).makeExtras();
  assert.equal(another, kept, "the block is used again");
  const given = jobs.pageOf(again).makeExtras();
  for (const slot of slots.slice(PAGE_ROWS, 2 * PAGE_ROWS)) jobs.free(slot);
  jobs.free(again);
  assert.equal(kept.expiresAtMs.length, PAGE_ROWS, "one is kept");
  assert.equal(given.expiresAtMs.length, 0, "the other is given back at once");
});
