// Wakes a sleeping thread, at the cost of one load while the thread is awake.
//
// Each thread has one word: 1 while its owner sleeps or is about to. The owner writes 1, checks its
// rings once more, and only then waits for the word to change. A publisher checks the word after
// its publication. These atomics have a single total order: either the owner sees the message or
// the publisher sees the 1. So no wake-up is lost.
//
// A thread that sleeps in an io_uring stores its descriptor next to its word. Threads that have an
// io_uring themselves wake it through theirs. `Atomics.notify` would go through the
// sleeper's event loop, which costs both sides time.

import { assert } from "../base/assert.ts";

const AWAKE = 0;
const ASLEEP = 1;
/** Offset of the io_uring's descriptor after the word; 0 means none. */
const DESCRIPTOR = 1;
/** Distance between doorbells in int32 words: one cache line. */
export const DOORBELL_WORDS = 16;

/** Tells the processor that the thread is spinning. */
export function pause(): void {
  Atomics.pause();
}

/** The publishers' side of a doorbell. */
export class Doorbell {
  /**
   * Wakes a thread that sleeps in the io_uring of a descriptor; set in threads that have one. If
   * the wake-up fails, the function must call `notify` with the word.
   */
  static wakeInUring: ((descriptor: number, word: number) => void) | undefined;
  readonly #words: Int32Array;
  readonly #word: number;

  constructor(words: Int32Array, index: number) {
    this.#words = words;
    this.#word = index * DOORBELL_WORDS;
    assert(this.#word + DESCRIPTOR < words.length, "a doorbell lies in its memory");
  }

  /** Wakes the owner of a word that was rung. */
  static notify(words: Int32Array, word: number): void {
    assert(word % DOORBELL_WORDS === 0, "a bell is rung at the beginning of its line");
    // Wakes all waiters: an earlier `sleepAsync` of the same owner may still precede a `sleep` in
    // the queue.
    Atomics.notify(words, word);
  }

  /** Wakes the owner if it sleeps; call after a publication. Returns whether it slept. */
  ring(): boolean {
    if (Atomics.load(this.#words, this.#word) === AWAKE) return false;
    if (Atomics.exchange(this.#words, this.#word, AWAKE) === AWAKE) return false;
    const { wakeInUring } = Doorbell;
    const descriptor = wakeInUring === undefined ? 0 : Atomics.load(this.#words, this.#word + DESCRIPTOR);
    if (descriptor > 0) {
      wakeInUring!(descriptor, this.#word);
      return true;
    }
    Doorbell.notify(this.#words, this.#word);
    return true;
  }
}

/** The owner's side of a doorbell. */
export class DoorbellOwner {
  readonly #words: Int32Array;
  readonly #word: number;
  /** Whether `wakeOnBell` waits. */
  #waitPending = false;

  constructor(words: Int32Array, index: number) {
    this.#words = words;
    this.#word = index * DOORBELL_WORDS;
    assert(this.#word + DESCRIPTOR < words.length, "an owner's doorbell lies in its memory");
  }

  /** Announces that the owner can also be woken through an io_uring. */
  sleepsInUring(descriptor: number): void {
    assert(descriptor > 0, "an io_uring has a descriptor above 0");
    Atomics.store(this.#words, this.#word + DESCRIPTOR, descriptor);
  }

  /** Returns whether another thread has rung since the sleep was announced. */
  get isRung(): boolean {
    return Atomics.load(this.#words, this.#word) === AWAKE;
  }

  /** Announces sleep. The owner must check its rings after this and before it waits. */
  prepare(): void {
    Atomics.store(this.#words, this.#word, ASLEEP);
  }

  /** Withdraws the announcement, because there is work after all. */
  cancel(): void {
    Atomics.store(this.#words, this.#word, AWAKE);
  }

  /**
   * Blocks the thread until another thread rings or `timeoutMs` passes. The owner doesn't sleep in
   * its io_uring meanwhile. A thread that rings during the block therefore finds no descriptor, and
   * one that found it has already rung.
   */
  sleep(timeoutMs: number): void {
    assert(timeoutMs >= 0, "a timeout is a number: NaN would wait for good");
    const descriptor = Atomics.exchange(this.#words, this.#word + DESCRIPTOR, 0);
    Atomics.wait(this.#words, this.#word, ASLEEP, timeoutMs);
    Atomics.store(this.#words, this.#word, AWAKE);
    Atomics.store(this.#words, this.#word + DESCRIPTOR, descriptor);
  }

  /** Blocks the thread for `ms` while its word says awake, so that no thread rings. */
  rest(ms: number): void {
    assert(ms >= 0, "a rest has a length: NaN would wait for good");
    Atomics.wait(this.#words, this.#word, AWAKE, ms);
  }

  /**
   * Returns a promise of the next ring, for a thread with an event loop; undefined if a thread has
   * already rung.
   */
  sleepAsync(): Promise<unknown> | undefined {
    const wait = Atomics.waitAsync(this.#words, this.#word, ASLEEP);
    return wait.async ? wait.value : undefined;
  }

  /** Makes the next ring call `wake`. Returns false if a thread has already rung. */
  wakeOnBell(wake: () => void): boolean {
    // An earlier wait that never ended still waits on the same word and suffices.
    if (this.#waitPending) return true;
    const rung = this.sleepAsync();
    if (rung === undefined) return false;
    this.#waitPending = true;
    rung.then(() => {
      this.#waitPending = false;
      wake();
    });
    return true;
  }
}
