// Names of the workers at one acceptor, by slot, in shared memory. A shard reads a name when an
// attempt fails, so no message has to carry names that the shard may never need.
//
// An entry is a word, whose low byte is the length, and the name. The word changes before and after
// each change of the name, so that a reader notices when it has read half of one.

import { assert } from "../base/assert.ts";
import { latin1 } from "../base/bytes.ts";

const ENTRY_BYTES = 68;
const ENTRY_WORDS = ENTRY_BYTES / 4;
/** Maximum length of a name in bytes. */
const NAME_BYTES_MAX = 63;
const LENGTH_MASK = 0xff;
/** Added to the word by a change that begins, and again when it ends. */
const CHANGE = 0x100;
const TRIES = 100;

export class WorkerNames {
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;

  /** Returns the size of the table for this many slots. */
  static bytesFor(slots: number): number {
    return slots * ENTRY_BYTES;
  }

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer);
    this.#bytes = new Uint8Array(buffer);
  }

  /**
   * Sets the Latin-1 name of the worker in a slot, cut to NAME_BYTES_MAX; for its acceptor only.
   */
  set(slot: number, name: string): void {
    const word = slot * ENTRY_WORDS;
    assert(word < this.#words.length, "a worker has a slot");
    const length = Math.min(name.length, NAME_BYTES_MAX);
    const before = this.#words[word]!;
    if (length === 0 && (before & LENGTH_MASK) === 0) return;
    Atomics.store(this.#words, word, before + CHANGE);
    // Only atomic accesses keep their order beside those of the word.
    for (let i = 0; i < length; i++) Atomics.store(this.#bytes, word * 4 + 4 + i, name.charCodeAt(i));
    Atomics.store(this.#words, word, ((before & ~LENGTH_MASK) + 2 * CHANGE) | length);
  }

  /** Returns the name in a slot in Latin-1; "" if it has none. */
  text(slot: number): string {
    const name = new Uint8Array(NAME_BYTES_MAX);
    return latin1(name, 0, this.read(slot, name, 0));
  }

  /** Copies a name to `into[at]`. Returns its length; 0 if there is none or it is being changed. */
  read(slot: number, into: Uint8Array, at: number): number {
    const word = slot * ENTRY_WORDS;
    for (let left = TRIES; left > 0; left--) {
      const before = Atomics.load(this.#words, word);
      if ((before & CHANGE) !== 0) continue;
      const length = before & LENGTH_MASK;
      for (let i = 0; i < length; i++) into[at + i] = Atomics.load(this.#bytes, word * 4 + 4 + i);
      if (Atomics.load(this.#words, word) === before) return length;
    }
    return 0;
  }
}
