// Loaded into every thread of a server under stress (NODE_OPTIONS=--import): pauses at every
// atomic, and the smallest rings.
//
// STRESS_SEED is the seed of the pauses. STRESS_PLANTED=claim makes the compare-exchange of claim
// words a load, a pause and a store.

import { writeSync } from "node:fs";
import { isMainThread, threadName } from "node:worker_threads";
import { MIGRATION_RING_BYTES } from "../../src/message/topology.ts";
import { monotonicMs } from "../../src/ring/monotonic-clock.ts";
import { DATA_OFFSET, RING_BYTES_MIN } from "../../src/ring/ring.ts";
import { injectPauses } from "./pauses.ts";

const STDERR = 2;
/**
 * The smallest ring that a server makes on its own: nothing else is DATA_OFFSET more than a power
 * of two from here on.
 */
const SERVER_RING_BYTES_MIN = 32 * 1024;

/** Two shards with a job for the same waiter are rare, so the planted bug leaves them time, ms. */
const PLANTED_GAP_MS = 5;

export const RING_NOTE = "stress: a ring of the smallest size";
export const PAUSES_NOTE = "stress: pauses in ";

/** Threads that never sleep in order have no later moment to say this. */
const note = (text: string): void => void writeSync(STDERR, `${text}\n`);

/**
 * Returns whether shared memory of this size is a ring that can be smaller. No connection could
 * move through a smaller one.
 */
export function isRing(bytes: unknown): boolean {
  const capacity = Number(bytes) - DATA_OFFSET;
  if (capacity === MIGRATION_RING_BYTES) return false;
  return capacity >= SERVER_RING_BYTES_MIN && (capacity & (capacity - 1)) === 0;
}

function shrinkRings(): void {
  globalThis.SharedArrayBuffer = new Proxy(SharedArrayBuffer, {
    construct(target, args: [number], newTarget) {
      if (!isRing(args[0])) return Reflect.construct(target, args, newTarget);
      note(RING_NOTE);
      return new target(DATA_OFFSET + RING_BYTES_MIN);
    },
  });
}

function plantTwoStepClaims(): void {
  Atomics.compareExchange = ((words: Int32Array, index: number, expected: number, wanted: number) => {
    const found = Atomics.load(words, index);
    if (found !== expected) return found;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PLANTED_GAP_MS);
    Atomics.store(words, index, wanted);
    return found;
  }) as typeof Atomics.compareExchange;
}

const thread = isMainThread ? "main" : (threadName ?? "");
const { STRESS_SEED, STRESS_PLANTED } = process.env;
if (STRESS_SEED !== undefined) {
  let seed = Number(STRESS_SEED);
  for (const character of thread) seed = (Math.imul(seed, 31) + character.charCodeAt(0)) >>> 0;
  injectPauses(seed, monotonicMs, () => note(`${PAUSES_NOTE}${thread}`));
  if (STRESS_PLANTED === "claim") plantTwoStepClaims();
  if (isMainThread) shrinkRings();
}
