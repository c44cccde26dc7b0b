// The tables: rows of jobs, id to slot, id to shard.
import { JobIndex } from "../../src/engine/jobs/job-index.ts";
import { JobState, JobTable, rowOf } from "../../src/engine/jobs/job-table.ts";
import { JobDirectory } from "../../src/ring/shared-words.ts";
import { type MicroBenchmark, sumBelow } from "./micro-benchmark.ts";

const SHARDS = 4;

const ROWS: MicroBenchmark = {
  subject: "table",
  name: "job rows: allocate and free",
  operations: 200_000,
  smallOperations: 10_000, // more than a page
  expected: sumBelow,
  open(operations) {
    const jobs = new JobTable();
    const slots = new Int32Array(operations);
    const fill = (): void => {
      for (let i = 0; i < operations; i++) {
        const slot = jobs.allocate();
        const page = jobs.pageOf(slot);
        page.state[rowOf(slot)] = JobState.Ready;
        page.id[rowOf(slot)] = i;
        slots[i] = slot;
      }
    };
    return {
      run() {
        fill();
        let sum = 0;
        for (const slot of slots) {
          const page = jobs.pageOf(slot);
          sum += page.id[rowOf(slot)]!;
          page.state[rowOf(slot)] = JobState.Free;
          jobs.free(slot);
        }
        if (jobs.pages.filter((page) => page !== undefined).length > 1)
          throw new Error("empty pages were not given back");
        return sum;
      },
    };
  },
};

const INDEX: MicroBenchmark = {
  subject: "table",
  name: "id to slot: set, get, delete",
  operations: 200_000,
  smallOperations: 10_000,
  expected: sumBelow,
  open(operations) {
    const index = new JobIndex();
    return {
      run() {
        for (let id = 1; id <= operations; id++) index.set(id, id - 1);
        let sum = 0;
        for (let id = 1; id <= operations; id++) sum += index.get(id);
        for (let id = 1; id <= operations; id++) index.delete(id);
        return sum;
      },
    };
  },
};

const DIRECTORY: MicroBenchmark = {
  subject: "table",
  name: "id to shard: set and find",
  operations: 1_000_000,
  smallOperations: 1000,
  expected: (operations) =>
    Math.floor(operations / SHARDS) * sumBelow(SHARDS) + sumBelow(operations % SHARDS),
  open(operations) {
    const directory = new JobDirectory(new SharedArrayBuffer(JobDirectory.BYTES));
    return {
      run() {
        for (let id = 0; id < operations; id++) directory.set(id, id % SHARDS);
        let sum = 0;
        for (let id = 0; id < operations; id++) sum += directory.find(id);
        return sum;
      },
    };
  },
};

export const TABLE: readonly MicroBenchmark[] = [ROWS, INDEX, DIRECTORY];
