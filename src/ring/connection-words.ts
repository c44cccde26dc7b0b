// Shared words about connections: claims of waits, counts by address, names of workers.

import { assert } from "../base/assert.ts";
import { latin1 } from "../base/bytes.ts";

// Claim words: decide which thread ends a wait over several shards. Exactly one wins, a shard with
// a job or the acceptor.
//
// Each connection slot has one int32: the number of its current wait (never 0), or 0. The thread
// that changes the number to 0 has ended the wait. All other threads, and those with the number of
// an earlier wait, lose.

const NOT_WAITING = 0;

export class ClaimWords {
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer);
  }

  /** The number of slots. */
  get length(): number {
    return this.#words.length;
  }

  /** Opens the wait `number` of a slot; any thread may claim it. */
  open(slot: number, number: number): void {
    assert(slot < this.#words.length && number !== NOT_WAITING, "a wait has a slot and a number");
    Atomics.store(this.#words, slot, number);
  }

  /** Ends the wait `number`; returns false if it has already ended. */
  claim(slot: number, number: number): boolean {
    assert(slot < this.#words.length && number !== NOT_WAITING, "a claim names a slot and a wait");
    return Atomics.compareExchange(this.#words, slot, number, NOT_WAITING) === number;
  }

  /** Returns whether the wait `number` is still open. */
  isOpen(slot: number, number: number): boolean {
    assert(slot < this.#words.length && number !== NOT_WAITING, "an open wait has a slot and a number");
    return Atomics.load(this.#words, slot) === number;
  }
}

// Connection counts over all acceptors: in total and per address.
//
// The counts per address form a count-min sketch of four rows. The address's hash chooses one word
// in each row, and the smallest of the four words is its count. Other addresses may share a word,
// but hardly all four.

/** Layout of the shared memory: the total, then ROWS rows of COLUMNS words. */
const ROWS = 4;
const COLUMNS_BITS = 14;
const COLUMNS = 1 << COLUMNS_BITS;

export const CONNECTION_COUNTS_BYTES: number = (1 + ROWS * COLUMNS) * 4;

export class ConnectionCounts {
  readonly #words: Int32Array;
  /** Random per process, so that attackers can't construct addresses that share words. */
  readonly #seed: number;

  constructor(buffer: SharedArrayBuffer, seed: number) {
    assert(buffer.byteLength === CONNECTION_COUNTS_BYTES, "the counts fill their memory");
    this.#words = new Int32Array(buffer);
    this.#seed = seed;
  }

  /** Counts one more connection, unless there are already `max`. */
  enter(max: number): boolean {
    if (Atomics.add(this.#words, 0, 1) < max) return true;
    this.leave();
    return false;
  }

  leave(): void {
    const before = Atomics.sub(this.#words, 0, 1);
    assert(before > 0, "a connection that leaves was counted");
  }

  /** Does the same for an address. */
  enterFrom(address: string, max: number): boolean {
    let least = Number.POSITIVE_INFINITY;
    for (let row = 0; row < ROWS; row++)
      least = Math.min(least, Atomics.add(this.#words, this.#wordOf(address, row), 1));
    if (least < max) return true;
    this.leaveFrom(address);
    return false;
  }

  leaveFrom(address: string): void {
    for (let row = 0; row < ROWS; row++) {
      const before = Atomics.sub(this.#words, this.#wordOf(address, row), 1);
      assert(before > 0, "an address that leaves was counted in each row");
    }
  }

  #wordOf(address: string, row: number): number {
    let hash = Math.imul(this.#seed ^ (row * 0x9e3779b9), 0x85ebca6b);
    for (let i = 0; i < address.length; i++) {
      hash = Math.imul(hash ^ address.charCodeAt(i), 0x01000193);
      hash ^= hash >>> 15;
    }
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return 1 + row * COLUMNS + ((hash ^ (hash >>> 16)) & (COLUMNS - 1));
  }
}

// Names of the workers at one acceptor, by slot, in shared memory. A shard reads a name when an
// attempt fails, so no message has to carry names that the shard may never need.
//
// An entry is a word, whose low byte is the length, and the name. The word changes before and after
// each change of the name, so that a reader notices when it has read half of one.

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
