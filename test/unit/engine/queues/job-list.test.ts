import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobTable, NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobList } from "../../../../src/engine/queues/job-heaps.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

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
