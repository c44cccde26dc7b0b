import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobState, JobTable, PAGE_ROWS, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

function allocate(table: JobTable, id: number): number {
  const slot = table.allocate();
  const page = table.pageOf(slot);
  assert.equal(page.state[rowOf(slot)], JobState.Free);
  page.state[rowOf(slot)] = JobState.Ready;
  page.id[rowOf(slot)] = id;
  return slot;
}

function free(table: JobTable, slot: number): void {
  table.pageOf(slot).state[rowOf(slot)] = JobState.Free;
  table.free(slot);
}

const pagesKept = (table: JobTable): number => table.pages.filter((page) => page !== undefined).length;

const step = fc.oneof(
  fc.record({ allocate: fc.constantFrom(1, 10, 1000, PAGE_ROWS) }),
  fc.record({ free: fc.constantFrom(1, 10, 1000, PAGE_ROWS * 2), from: fc.constantFrom("front", "back") }),
);

it("JobTable hands out free slots only, keeps every job's row and visits exactly the jobs", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const table = new JobTable();
      const jobs = new Map<number, number>();
      let nextId = 1;
      for (const each of steps) {
        if ("allocate" in each) {
          for (let i = 0; i < each.allocate; i++) {
            const slot = allocate(table, nextId);
            assert.ok(!jobs.has(slot), "a slot is given once");
            jobs.set(slot, nextId++);
          }
        } else {
          const slots = [...jobs.keys()];
          const chosen = each.from === "front" ? slots.slice(0, each.free) : slots.slice(-each.free);
          for (const slot of chosen) {
            free(table, slot);
            jobs.delete(slot);
          }
        }
        assert.equal(table.live, jobs.size);
      }
      const visited = new Map<number, number>();
      table.forEach((slot) => {
        visited.set(slot, table.pageOf(slot).id[rowOf(slot)]!);
      });
      assert.deepEqual(
        [...visited].sort((a, b) => a[0] - b[0]),
        [...jobs].sort((a, b) => a[0] - b[0]),
      );
    }),
    20,
  );
});

it("JobTable frees empty pages except one, and fills low pages first", () => {
  const table = new JobTable();
  const slots = Array.from({ length: PAGE_ROWS * 4 }, (_, i) => allocate(table, i + 1));
  assert.equal(pagesKept(table), 4);
  for (const slot of slots.slice(PAGE_ROWS, PAGE_ROWS * 3)) free(table, slot);
  assert.equal(pagesKept(table), 3);
  assert.equal(Math.floor(allocate(table, 99) / PAGE_ROWS), 1);
  for (const slot of slots.slice(PAGE_ROWS * 3)) free(table, slot);
  for (const slot of slots.slice(0, PAGE_ROWS)) free(table, slot);
  assert.equal(table.live, 1);
  assert.equal(pagesKept(table), 2);
});

it("JobTable detaches the memory of a freed page", () => {
  const table = new JobTable();
  const slots = Array.from({ length: PAGE_ROWS * 2 }, (_, i) => allocate(table, i + 1));
  const pages = [...table.pages];
  for (const slot of slots) free(table, slot);
  assert.deepEqual(
    pages.map((page) => page!.id.length).sort((a, b) => a - b),
    [0, PAGE_ROWS],
  );
});

it("JobTable refuses to free a job that is in a state, or twice", () => {
  const table = new JobTable();
  const slot = allocate(table, 1);
  assert.throws(() => table.free(slot), /a job is freed once, when it has left its state/);
});
