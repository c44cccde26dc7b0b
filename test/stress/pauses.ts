// Random pauses before and after every atomic operation of a thread, so that everything that may
// happen between two of them does.
//
// The modules of src/ring call `Atomics.load(...)` on the global object each time, so replacing its
// functions affects them without changes there. A pause is a spin of up to some microseconds, or a
// sleep of up to a millisecond that gives up the core. The frequency changes in phases: a thread
// that is always held up meets the others as rarely as one that never is.

type Operation = (words: Int32Array, index: number, a?: number, b?: number) => unknown;

const PAUSED = [
  "load",
  "store",
  "exchange",
  "compareExchange",
  "add",
  "notify",
  "wait",
  "waitAsync",
] as const satisfies readonly (keyof typeof Atomics)[];

/** Chances of a pause at one place, of 2^32: [any, of which a sleep]. */
const MOODS: readonly (readonly [number, number])[] = [
  [0, 0],
  [2 ** 32 / 64, 2 ** 32 / 16_384],
  [2 ** 32 / 8, 2 ** 32 / 8_192],
  [2 ** 32 / 3, 2 ** 32 / 512],
];
const PLACES_PER_MOOD = 2048;
const SPINS_MAX = 256;

/** The operations as they are, for the bookkeeping of the tests themselves. */
export const plain: typeof Atomics = Object.defineProperties(
  {},
  Object.getOwnPropertyDescriptors(Atomics),
) as typeof Atomics;

/**
 * The thread's last Atomics.wait: what it said, and a moment (monotonic ms of `clock`) at which it
 * had not begun.
 */
export const lastWait: { result: "ok" | "not-equal" | "timed-out"; beganAtMs: number } = {
  result: "ok",
  beganAtMs: 0,
};

interface PauseCount {
  /** Pauses made so far in this thread. */
  made: number;
}

/**
 * Replaces the thread's atomic operations. To be called once; the same seed draws the same pauses
 * in the same order.
 */
export function injectPauses(seed: number, clock: () => number, onFirst: () => void = () => {}): PauseCount {
  const count: PauseCount = { made: 0 };
  const own = new Int32Array(new SharedArrayBuffer(4));
  let state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) | 1;
  const draw = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  // Some threads do little: the first phase has pauses.
  let left = PLACES_PER_MOOD;
  let mood = MOODS[1 + (draw() % (MOODS.length - 1))]!;
  const place = (): void => {
    if (left-- === 0) {
      left = PLACES_PER_MOOD;
      mood = MOODS[draw() % MOODS.length]!;
    }
    const chance = draw();
    if (chance >= mood[0]) return;
    if (count.made++ === 0) onFirst();
    if (chance < mood[1]) {
      plain.wait(own, 0, 0, (draw() % 1000) / 1000);
      return;
    }
    for (let spins = draw() % SPINS_MAX; spins > 0; spins--) plain.pause();
  };
  const table = Atomics as unknown as Record<string, Operation>;
  for (const name of PAUSED) {
    const real = plain[name] as unknown as Operation;
    table[name] = (words, index, a, b) => {
      place();
      if (name === "wait") lastWait.beganAtMs = clock();
      const result = real(words, index, a, b);
      if (name === "wait") lastWait.result = result as typeof lastWait.result;
      place();
      return result;
    };
  }
  return count;
}
