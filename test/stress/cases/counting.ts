// Numbers that several threads take from one counter: job ids. Tubes are numbered in the same way.

import { JobIds } from "../../../src/ring/shared-words.ts";
import type { Shared } from "../case.ts";
import { litmusCase, SLOTS } from "../litmus.ts";
import { FarIds, TwoStepIds } from "../planted/words.ts";

const ACTORS = ["acceptor 0", "acceptor 1", "acceptor 2"] as const;
/** Numbers that each actor takes from a slot. */
const TAKEN = 6;
const HINT_UNIT = 2 ** 24;
const LOW_RANGE = 2 ** 32;
const BOUNDARIES = [1, 1000, HINT_UNIT, 5 * HINT_UNIT, 2 ** 31, LOW_RANGE, 3 * LOW_RANGE, 2 ** 50] as const;

interface State<Counter> {
  readonly counters: readonly Counter[];
  /** First number of each slot. */
  readonly starts: Float64Array;
  /** For each slot and actor TAKEN numbers. */
  readonly taken: Float64Array;
}

const create = (): Shared => ({
  words: new SharedArrayBuffer(SLOTS * 2 * 4),
  starts: new SharedArrayBuffer(SLOTS * 8),
  taken: new SharedArrayBuffer(SLOTS * ACTORS.length * TAKEN * 8),
});

const stateOf = <Counter>(shared: Shared, make: (slot: number) => Counter): State<Counter> => ({
  counters: Array.from({ length: SLOTS }, (_, slot) => make(slot)),
  starts: new Float64Array(shared["starts"]!),
  taken: new Float64Array(shared["taken"]!),
});

function takeAll(state: State<unknown>, actor: number, slot: number, take: () => number): void {
  const from = (slot * ACTORS.length + actor) * TAKEN;
  for (let i = 0; i < TAKEN; i++) state.taken[from + i] = take();
}

/** Returns whether every number from the start on was taken once, and by each actor upwards. */
function judge({ starts, taken }: State<unknown>, slot: number): string {
  const from = slot * ACTORS.length * TAKEN;
  const all = taken.subarray(from, from + ACTORS.length * TAKEN);
  for (let i = 0; i < all.length; i++)
    if (i % TAKEN > 0 && all[i]! <= all[i - 1]!) return `${all[i]} was taken after ${all[i - 1]}`;
  const start = starts[slot]!;
  const sorted = Float64Array.from(all).sort();
  for (const [i, id] of sorted.entries()) if (id !== start + i) return `${start + i} is missing: got ${id}`;
  const last = sorted.at(-1)!;
  if (Math.floor(start / LOW_RANGE) !== Math.floor(last / LOW_RANGE)) return "dense over a multiple of 2^32";
  if (Math.floor(start / HINT_UNIT) !== Math.floor(last / HINT_UNIT)) return "dense over a multiple of 2^24";
  return "dense";
}

const DENSE = { result: "dense", verdict: "ACCEPTABLE", required: true } as const;
const LOAD_AND_STORE = "adds by a load and a store";
const FAR = "completes an id to the wrong 2^32";

export const jobIdsCase = litmusCase<State<JobIds>>({
  name: "job-ids",
  about: "three acceptors take job ids, around every boundary of the two words",
  actors: ACTORS,
  outcomes: [
    { ...DENSE, why: "every id is given once, none is left out, and each acceptor sees them rise" },
    {
      result: "dense over a multiple of 2^24",
      verdict: "INTERESTING",
      why: "one acceptor stores the hint while others complete their ids with the old one",
      required: true,
    },
    {
      result: "dense over a multiple of 2^32",
      verdict: "INTERESTING",
      why: "the low word began anew; an id is completed to the number nearest to the hint",
      required: true,
    },
  ],
  planted: [LOAD_AND_STORE, FAR],
  create,
  open(shared, planted) {
    const words = new Int32Array(shared["words"]!);
    const Ids = planted === LOAD_AND_STORE ? TwoStepIds : planted === FAR ? FarIds : JobIds;
    return stateOf(shared, (slot) => new Ids(words, slot * 2));
  },
  reset({ counters, starts }, slot, { random }) {
    const boundary = random.pick(BOUNDARIES)!;
    const start = Math.max(1, boundary - random.between(0, ACTORS.length * TAKEN));
    starts[slot] = start;
    counters[slot]!.reset(start);
  },
  act: (state, actor, slot) => takeAll(state, actor, slot, () => state.counters[slot]!.take()),
  judge,
});
