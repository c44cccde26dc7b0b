// Shared memory of the generating workers of a run: which are ready, the start time, and the number
// of jobs.
const WORDS = { ready: 0, go: 1, driversLeft: 2, backlog: 3, operations: 4, inserted: 5, failed: 6 } as const;
type ControlWord = keyof typeof WORDS;

const START_BYTE = 64; // Float64: start of the run on the monotonic clock, in milliseconds

export class WorkerControl {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #startMs: Float64Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(128)) {
    this.memory = memory;
    this.#words = new Int32Array(memory, 0, 16);
    this.#startMs = new Float64Array(memory, START_BYTE, 1);
  }

  get(word: ControlWord): number {
    return Atomics.load(this.#words, WORDS[word]);
  }

  /** Returns the value before. */
  add(word: ControlWord, amount: number): number {
    return Atomics.add(this.#words, WORDS[word], amount);
  }

  get startMs(): number {
    return this.#startMs[0]!;
  }

  /** Lets the workers go at a time on the monotonic clock. */
  start(atMs: number): void {
    this.#startMs[0] = atMs;
    Atomics.store(this.#words, WORDS.go, 1);
  }
}
