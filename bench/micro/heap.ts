// The heaps of the engine: ready jobs by priority, deadlines, and the timers of tubes and sessions.
import { JobState, JobTable, rowOf } from "../../src/engine/jobs/job-table.ts";
import { Timer, TimerHeap } from "../../src/engine/queues/heaps.ts";
import { DeadlineHeap, ReadyHeap } from "../../src/engine/queues/job-heaps.ts";
import { SeededRandom } from "../../test/support/seeded-random.ts";
import type { MicroBenchmark } from "./micro-benchmark.ts";

const SEED = 1;
const KEY_MAX = 1_000_000;

/** The keys, one for each operation. */
function keysOf(operations: number): number[] {
  const random = new SeededRandom(SEED);
  return Array.from({ length: operations }, () => random.between(0, KEY_MAX));
}

/** Sums keys weighted by their place, so that another order has another sum. */
function weighted(keys: Iterable<number>): number {
  let sum = 0;
  let place = 0;
  for (const key of keys) sum += key * (++place % 1000);
  return sum;
}

const inOrder = (operations: number): number => weighted(keysOf(operations).toSorted((a, b) => a - b));

function slotHeap(
  name: string,
  column: "pri" | "deadlineAtMs",
  make: (jobs: JobTable) => ReadyHeap | DeadlineHeap,
): MicroBenchmark {
  return {
    subject: "heap",
    name,
    operations: 100_000,
    smallOperations: 1000,
    expected: inOrder,
    open(operations) {
      const jobs = new JobTable();
      const heap = make(jobs);
      const slots = keysOf(operations).map((key, index) => {
        const slot = jobs.allocate();
        const page = jobs.pageOf(slot);
        page.state[rowOf(slot)] = JobState.Ready;
        page.id[rowOf(slot)] = index + 1;
        page[column][rowOf(slot)] = key;
        return slot;
      });
      const popAll = function* (): Iterable<number> {
        while (heap.size > 0) {
          const slot = heap.top;
          heap.remove(slot);
          yield jobs.pageOf(slot)[column][rowOf(slot)]!;
        }
      };
      return {
        run() {
          for (const slot of slots) heap.push(slot);
          return weighted(popAll());
        },
      };
    },
  };
}

/** An owner knows its timer, as tubes and sessions do. */
class TimerOwner {
  readonly key: number;
  readonly timer: Timer<TimerOwner> = new Timer<TimerOwner>(this);

  constructor(key: number) {
    this.key = key;
  }
}

const TIMERS: MicroBenchmark = {
  subject: "heap",
  name: "timers: set, move, clear the earliest, 50 k of them",
  operations: 50_000,
  smallOperations: 1000,
  expected: inOrder,
  open(operations) {
    const heap = new TimerHeap<TimerOwner>();
    const owners = keysOf(operations).map((key) => new TimerOwner(key));
    const clearAll = function* (): Iterable<number> {
      for (let owner = heap.first; owner !== undefined; owner = heap.first) {
        heap.set(owner.timer, Number.POSITIVE_INFINITY);
        yield owner.key;
      }
    };
    return {
      run() {
        for (const { timer, key } of owners) heap.set(timer, KEY_MAX - key);
        for (const { timer, key } of owners) heap.set(timer, key);
        return weighted(clearAll());
      },
    };
  },
};

export const HEAP: readonly MicroBenchmark[] = [
  slotHeap("ready: push and pop, 100 k jobs", "pri", (jobs) => new ReadyHeap(jobs)),
  slotHeap("deadlines: push and pop, 100 k jobs", "deadlineAtMs", (jobs) => new DeadlineHeap(jobs)),
  TIMERS,
];
