import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import fc from "fast-check";
import { JobState, JobTable, NO_SLOT, PAGE_ROWS, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { DeadlineHeap, ExpiryHeap, JobList, ReadyHeap } from "../../../../src/engine/queues/job-heaps.ts";
import { checkProperty } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

interface Job {
  slot: number;
  id: number;
  rank: number;
}

const KINDS = {
  ReadyHeap: { heap: ReadyHeap, column: "pri" },
  DeadlineHeap: { heap: DeadlineHeap, column: "deadlineAtMs" },
} as const;

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ push: fc.nat(6) }) },
  { weight: 3, arbitrary: fc.record({ remove: fc.nat() }) },
  { weight: 2, arbitrary: fc.constant({ pop: true }) },
);

for (const [name, { heap: Heap, column }] of Object.entries(KINDS)) {
  it(`${name} keeps the order of a sorted list through pushes and removals of any member`, (t) => {
    checkProperty(
      t,
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const jobs = new JobTable();
        const heap = new Heap(jobs);
        const list: Job[] = [];
        let nextId = 1;
        for (const each of steps) {
          if ("push" in each) {
            // Beyond the first 32 bits of the sign, as priorities are unsigned.
            const rank = each.push * 700_000_000;
            const job = { slot: jobs.allocate(), id: nextId++, rank };
            const page = jobs.pageOf(job.slot);
            page.id[rowOf(job.slot)] = job.id;
            page[column][rowOf(job.slot)] = rank;
            heap.push(job.slot);
            list.push(job);
          } else if (list.length > 0) {
            const at = "pop" in each ? 0 : each.remove % list.length;
            heap.remove(list.splice(at, 1)[0]!.slot);
          }
          list.sort((a, b) => a.rank - b.rank || a.id - b.id);
          assert.equal(heap.size, list.length);
          assert.equal(heap.top, list[0]?.slot ?? NO_SLOT);
          for (let position = 0; position < heap.size; position++) {
            const slot = heap.at(position);
            assert.equal(jobs.pageOf(slot).heapPosition[rowOf(slot)], position);
          }
        }
        while (list.length > 0) {
          assert.equal(heap.top, list[0]!.slot);
          heap.remove(list.shift()!.slot);
        }
        assert.equal(heap.top, NO_SLOT);
      }),
      60,
    );
  });
}

it("SlotHeap refuses to remove a job that is not in it", () => {
  const jobs = new JobTable();
  const heap = new ReadyHeap(jobs);
  heap.push(jobs.allocate());
  const stranger = jobs.allocate();
  assert.throws(() => heap.remove(stranger), /broken invariant: a job leaves the heap that it is in/);
});

// Tests of the heap of expiring jobs against a sorted list; a page without such jobs allocates
// nothing for them.

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
  assert.equal(kept.expiresAtMs.buffer.byteLength, PAGE_ROWS * 38);
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

describe("job list", () => {
  /** The list from its first to its last job, links checked both ways. */
  function walk(list: JobList, jobs: JobTable): number[] {
    const slots: number[] = [];
    let previous: number = NO_SLOT;
    for (let slot = list.first; slot !== NO_SLOT; slot = jobs.pageOf(slot).next[rowOf(slot)]!) {
      assert.equal(jobs.pageOf(slot).previous[rowOf(slot)], previous);
      slots.push(slot);
      previous = slot;
    }
    assert.equal(list.last, previous);
    return slots;
  }

  const step = fc.oneof(
    { weight: 3, arbitrary: fc.constant("append" as const) },
    { weight: 2, arbitrary: fc.nat() },
  );

  it("JobList keeps the order in which jobs came, whichever of them leave", (t) => {
    checkProperty(
      t,
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const jobs = new JobTable();
        const list = new JobList(jobs);
        const expected: number[] = [];
        for (const each of steps) {
          if (each === "append") {
            const slot = jobs.allocate();
            list.append(slot);
            expected.push(slot);
          } else if (expected.length > 0) {
            list.remove(expected.splice(each % expected.length, 1)[0]!);
          }
          assert.deepEqual(walk(list, jobs), expected);
        }
      }),
    );
  });

  it("JobList refuses to remove a job that is not in it", () => {
    const jobs = new JobTable();
    const [list, other] = [new JobList(jobs), new JobList(jobs)];
    list.append(jobs.allocate());
    const stranger = jobs.allocate();
    other.append(stranger);
    assert.throws(() => list.remove(stranger), /broken invariant: a job leaves the list that it is in/);
  });
});
