// Until when a server of a group may serve: one int32 of monotonic ms, which wraps. Written by the thread of the group, read by shards once a turn.

export class LeaseWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** `words[at]` belongs to it. */
  constructor(words: Int32Array, at: number) {
    this.#words = words;
    this.#at = at;
  }

  publish(untilMs: number): void {
    Atomics.store(this.#words, this.#at, Math.floor(untilMs) | 0);
  }

  isOver(nowMs: number): boolean {
    return ((Atomics.load(this.#words, this.#at) - nowMs) | 0) <= 0;
  }
}

/** The wall clock may be corrected by so much without a pause of the machine, ms. */
const WALL_SLACK_MS = 250;

/**
 * The lease by two clocks. The monotonic clock stands still while a machine is suspended; then the wall clock, which jumps when it
 * wakes, says that the lease is over.
 */
export class Lease {
  readonly #until: LeaseWord;
  readonly #untilWall: LeaseWord;
  readonly #wallMs: () => number;

  /** `words[at]` and `words[wallAt]` are its ends. */
  constructor(words: Int32Array, at: number, wallAt: number, wallMs: () => number = Date.now) {
    this.#until = new LeaseWord(words, at);
    this.#untilWall = new LeaseWord(words, wallAt);
    this.#wallMs = wallMs;
  }

  publish(untilMs: number, untilWallMs: number): void {
    this.#untilWall.publish(untilWallMs);
    this.#until.publish(untilMs);
  }

  /** `nowMs`: by the monotonic clock. */
  isOver(nowMs: number): boolean {
    return this.#until.isOver(nowMs) || this.#untilWall.isOver(this.#wallMs() - WALL_SLACK_MS);
  }
}

/** Whether the wall clock has gone on without the monotonic one: `offsetMs` is how far it is ahead, `beforeMs` how far it was. */
export function hasPaused(offsetMs: number, beforeMs: number): boolean {
  return offsetMs - beforeMs > WALL_SLACK_MS;
}
