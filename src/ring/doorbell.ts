// Wakes a thread that sleeps, costs one load while it doesn't.
//
// One word per thread: 1 while its owner sleeps or is about to. The owner writes 1, looks at its rings once
// more, and only then waits for the word to change. Whoever publishes looks at the word after its
// publication. In the single order of all these atomics either the owner sees the message or the publisher
// sees the 1, so no wake is lost.
//
// A thread that sleeps in a ring of the kernel (io_uring) has that ring's descriptor beside the word. Others with such a ring wake
// it through it: `Atomics.notify` would have to go through its event loop, which both sides pay for.

const AWAKE = 0;
const ASLEEP = 1;
/** Where the descriptor is, behind the word; 0 for none. */
const DESCRIPTOR = 1;
/** Doorbells stand this many int32 words apart: a cache line each. */
export const DOORBELL_WORDS = 16;

/** Tells the processor that the thread is spinning. */
export function pause(): void {
  Atomics.pause();
}

/** The publishers' side. */
export class Doorbell {
  /**
   * Wakes who sleeps in the ring of a descriptor; set in a thread that can. Where it can't be after all, `notify` has to be called
   * with the word.
   */
  static wakeInRing: ((descriptor: number, word: number) => void) | undefined;
  readonly #words: Int32Array;
  readonly #word: number;

  constructor(words: Int32Array, index: number) {
    this.#words = words;
    this.#word = index * DOORBELL_WORDS;
  }

  /** Wakes the owner of a word that has been rung. */
  static notify(words: Int32Array, word: number): void {
    // All of them: an earlier `sleepAsync` of the same owner may still stand in the line before a `sleep`.
    Atomics.notify(words, word);
  }

  /** Wakes the owner if it sleeps. To be called after a publication. Returns whether it slept. */
  ring(): boolean {
    if (Atomics.load(this.#words, this.#word) === AWAKE) return false;
    if (Atomics.exchange(this.#words, this.#word, AWAKE) === AWAKE) return false;
    const { wakeInRing } = Doorbell;
    const descriptor = wakeInRing === undefined ? 0 : Atomics.load(this.#words, this.#word + DESCRIPTOR);
    if (descriptor > 0) {
      wakeInRing!(descriptor, this.#word);
      return true;
    }
    Doorbell.notify(this.#words, this.#word);
    return true;
  }
}

/** The owner's side. */
export class DoorbellOwner {
  readonly #words: Int32Array;
  readonly #word: number;

  constructor(words: Int32Array, index: number) {
    this.#words = words;
    this.#word = index * DOORBELL_WORDS;
  }

  /** From now on the owner can be woken in a ring of the kernel while it sleeps, too. */
  sleepsInRing(descriptor: number): void {
    Atomics.store(this.#words, this.#word + DESCRIPTOR, descriptor);
  }

  /** Whether somebody has rung since the sleep was announced. */
  get isRung(): boolean {
    return Atomics.load(this.#words, this.#word) === AWAKE;
  }

  /** Announces sleep. The owner must look at its rings after this and before it waits. */
  prepare(): void {
    Atomics.store(this.#words, this.#word, ASLEEP);
  }

  /** Takes the announcement back: there is work after all. */
  cancel(): void {
    Atomics.store(this.#words, this.#word, AWAKE);
  }

  /**
   * Blocks the thread until somebody rings or `timeoutMs` is over. It does not sleep in its ring now: who rings while it blocks finds
   * no descriptor, and who has found one has rung before.
   */
  sleep(timeoutMs: number): void {
    const descriptor = Atomics.exchange(this.#words, this.#word + DESCRIPTOR, 0);
    Atomics.wait(this.#words, this.#word, ASLEEP, timeoutMs);
    Atomics.store(this.#words, this.#word, AWAKE);
    Atomics.store(this.#words, this.#word + DESCRIPTOR, descriptor);
  }

  /** Blocks the thread for `ms`, awake to all others: nobody rings. */
  rest(ms: number): void {
    Atomics.wait(this.#words, this.#word, AWAKE, ms);
  }

  /** A promise of the next ring for a thread with an event loop, or undefined if it rang already. */
  sleepAsync(): Promise<unknown> | undefined {
    const wait = Atomics.waitAsync(this.#words, this.#word, ASLEEP);
    return wait.async ? wait.value : undefined;
  }
}
