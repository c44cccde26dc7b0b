import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobTable, NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { DeadlineHeap, ReadyHeap } from "../../../../src/engine/queues/job-heaps.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

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
