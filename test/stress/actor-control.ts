// Synchronisation of a run's actors: a few words of shared memory, with plain atomics and so
// without pauses.

import { plain } from "./pauses.ts";

const STOP = 0;
const FAILED = 1;
const ARRIVED = 2;
const GENERATION = 3;
/** Each actor's iteration stands on a cache line of its own from here on. */
const PROGRESS = 16;
const PROGRESS_STEP = 16;
const SPINS_AT_BARRIER = 200;
const SPINS_TO_MEET = 150;

export class ActorControl {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #actors: number;

  constructor(actors: number, buffer?: SharedArrayBuffer) {
    this.#actors = actors;
    this.buffer = buffer ?? new SharedArrayBuffer((PROGRESS + actors * PROGRESS_STEP) * 4);
    this.#words = new Int32Array(this.buffer);
  }

  get stopped(): boolean {
    return plain.load(this.#words, STOP) !== 0;
  }

  stop(): void {
    plain.store(this.#words, STOP, 1);
  }

  get failed(): boolean {
    return plain.load(this.#words, FAILED) !== 0;
  }

  fail(): void {
    plain.store(this.#words, FAILED, 1);
    this.stop();
  }

  barrier(): void {
    const generation = plain.load(this.#words, GENERATION);
    if (plain.add(this.#words, ARRIVED, 1) + 1 === this.#actors) {
      plain.store(this.#words, ARRIVED, 0);
      plain.add(this.#words, GENERATION, 1);
      plain.notify(this.#words, GENERATION);
      return;
    }
    for (let spins = 0; spins < SPINS_AT_BARRIER; spins++) {
      if (plain.load(this.#words, GENERATION) !== generation) return;
      plain.pause();
    }
    plain.wait(this.#words, GENERATION, generation);
  }

  meet(actor: number, number: number): void {
    plain.store(this.#words, PROGRESS + actor * PROGRESS_STEP, number);
    for (let spins = 0; spins < SPINS_TO_MEET; spins++) {
      let here = true;
      for (let other = 0; other < this.#actors && here; other++)
        here = ((plain.load(this.#words, PROGRESS + other * PROGRESS_STEP) - number) | 0) >= 0;
      if (here) return;
      plain.pause();
    }
  }
}
