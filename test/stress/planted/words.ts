// Words and tables with planted bugs, which the stress cases must find.

import { ClaimWords } from "../../../src/ring/connection-words.ts";
import {
  ControlWords,
  FileTable,
  JobDirectory,
  JobIds,
  LOG_WORDS,
  LogWord,
  LogWords,
  UNKNOWN_SHARD,
} from "../../../src/ring/shared-words.ts";

class BareClaims extends ClaimWords {
  protected readonly all: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    super(buffer);
    this.all = new Int32Array(buffer);
  }
}

/** Looks and then takes: two may look before one takes. */
export class TwoStepClaims extends BareClaims {
  override claim(slot: number, number: number): boolean {
    if (Atomics.load(this.all, slot) !== number) return false;
    Atomics.store(this.all, slot, 0);
    return true;
  }
}

/** Takes whatever wait is open and looks afterwards whether it was the right one. */
export class GreedyClaims extends BareClaims {
  override claim(slot: number, number: number): boolean {
    return Atomics.exchange(this.all, slot, 0) === number;
  }
}

class BareIds extends JobIds {
  protected readonly all: Int32Array;
  protected readonly at: number;

  constructor(words: Int32Array, at: number) {
    super(words, at);
    this.all = words;
    this.at = at;
  }
}

/** Counts by a load and a store. */
export class TwoStepIds extends BareIds {
  override take(): number {
    const before = Atomics.load(this.all, this.at);
    const id = super.take();
    Atomics.store(this.all, this.at, before + 1);
    return id;
  }
}

const HINT_UNIT = 2 ** 24;
const LOW_RANGE = 2 ** 32;

/** Completes the low bits to the hint's own 2^32 instead of the nearest. */
export class FarIds extends BareIds {
  override take(): number {
    const low = Atomics.add(this.all, this.at, 1) >>> 0;
    const near = Atomics.load(this.all, this.at + 1) * HINT_UNIT;
    return near - (near % LOW_RANGE) + low;
  }
}

/** Flags without atomics: a store may overtake a load. */
export class PlainControl extends ControlWords {
  override isSet(word: number): boolean {
    return this.words[word] !== 0;
  }

  override set(word: number): void {
    this.words[word] = 1;
  }
}

class BareDirectory extends JobDirectory {
  protected readonly all: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    super(buffer);
    this.all = new Int32Array(buffer);
  }
}

/** Returns the shard in the entry, of any id. */
export class TaglessDirectory extends BareDirectory {
  override find(id: number): number {
    const entry = Atomics.load(this.all, id % this.all.length);
    return entry === 0 ? UNKNOWN_SHARD : (entry & 0xff) - 1;
  }
}

/** Writes the tag first and the shard after it. */
export class TornDirectory extends BareDirectory {
  override set(id: number, shard: number): void {
    const at = id % this.all.length;
    Atomics.store(
      this.all,
      at,
      (Math.floor(id / this.all.length) << 8) | (Atomics.load(this.all, at) & 0xff),
    );
    super.set(id, shard);
  }
}

/** Writes the tag first and the file after it. */
export class TornFiles extends FileTable {
  readonly #all: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    super(buffer);
    this.#all = new Int32Array(buffer);
  }

  override set(id: number, file: number): void {
    const at = id % this.#all.length;
    const before = Atomics.load(this.#all, at) & 0xffffff;
    Atomics.store(this.#all, at, (Math.floor(id / this.#all.length) << 24) | before);
    super.set(id, file);
  }
}

/** Publishes the low byte of a number after the rest. */
export class TornSynced extends LogWords {
  readonly #all: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    super(buffer, LogWord.Synced);
    this.#all = new Int32Array(buffer);
  }

  override publish(shard: number, number: number): void {
    Atomics.store(this.#all, shard * LOG_WORDS + LogWord.Synced, number & ~0xff);
    super.publish(shard, number);
  }
}
