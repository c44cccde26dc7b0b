// The unique keys of a shard: who has each of them, and until when it is remembered after that.
//
// A key belongs to a tube. Rows are columns of typed arrays in pages, 32 bytes each; a row's key is a cell of
// the arena of bodies. Rows are found by a hash in 256 tables with open addressing, each of which grows by
// itself, so that no put waits for a million keys to be placed anew. Bytes are compared, so two keys of one hash are
// still two. The hash has a seed that clients don't know: they could choose keys that all land in one place.

import { assert } from "../base/assert.ts";
import type { BodyArena } from "./body-arena.ts";
import { IndexedHeap } from "./indexed-heap.ts";

export const NO_ROW = -1;
/** No job has the key (any more). */
export const NO_HOLDER = -1;
/** Keys that a shard remembers at most. */
export const KEYS_MAX: number = 1 << 20;

const PAGE_BITS = 12;
const PAGE_ROWS = 1 << PAGE_BITS;
const PAGE_MASK = PAGE_ROWS - 1;
const PARTS = 256;
const PART_SLOTS_MIN = 8;
/** A cell: a byte each for the length of tube and key, then both. */
const CELL_HEAD_BYTES = 2;

class KeyPage {
  /** ms of the monotonic clock; 0: it ends with its job. */
  readonly untilMs: Float64Array;
  /** The job that has it, or had it. */
  readonly id: Float64Array;
  readonly hash: Uint32Array;
  readonly cell: Uint32Array;
  /** Slot of the job that has it, or NO_HOLDER; of a free row the next free one. */
  readonly slot: Int32Array;
  /** Among the keys that nobody has, by `untilMs`; or -1. */
  readonly heapPosition: Int32Array;

  constructor() {
    const buffer = new ArrayBuffer(PAGE_ROWS * 32);
    this.untilMs = new Float64Array(buffer, 0, PAGE_ROWS);
    this.id = new Float64Array(buffer, PAGE_ROWS * 8, PAGE_ROWS);
    this.hash = new Uint32Array(buffer, PAGE_ROWS * 16, PAGE_ROWS);
    this.cell = new Uint32Array(buffer, PAGE_ROWS * 20, PAGE_ROWS);
    this.slot = new Int32Array(buffer, PAGE_ROWS * 24, PAGE_ROWS);
    this.heapPosition = new Int32Array(buffer, PAGE_ROWS * 28, PAGE_ROWS).fill(-1);
  }
}

/** Keys without a job, the first to be forgotten first. */
class WindowHeap extends IndexedHeap {
  readonly #pages: readonly KeyPage[];

  constructor(pages: readonly KeyPage[]) {
    super();
    this.#pages = pages;
  }

  protected override less(a: number, b: number): boolean {
    const untilA = this.#pages[a >>> PAGE_BITS]!.untilMs[a & PAGE_MASK]!;
    const untilB = this.#pages[b >>> PAGE_BITS]!.untilMs[b & PAGE_MASK]!;
    return untilA < untilB || (untilA === untilB && a < b);
  }

  protected override positionOf(row: number): number {
    return this.#pages[row >>> PAGE_BITS]!.heapPosition[row & PAGE_MASK]!;
  }

  protected override place(row: number, position: number): void {
    this.#pages[row >>> PAGE_BITS]!.heapPosition[row & PAGE_MASK] = position;
  }
}

/** A tube's name and a key, as bytes. */
export interface TubeKey {
  readonly tube: Uint8Array;
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

export class KeyTable {
  /** Keys that somebody has or that are remembered. */
  size = 0;
  readonly #arena: BodyArena;
  readonly #pages: KeyPage[] = [];
  /** Rows + 1 by hash, each part a power of two long; undefined while it has none. */
  readonly #parts: (Int32Array | undefined)[] = [];
  readonly #counts = new Uint32Array(PARTS);
  readonly #windows = new WindowHeap(this.#pages);
  readonly #seed: readonly [number, number];
  readonly #rowsMax: number;
  #freeRow: number = NO_ROW;
  #rows = 0;
  readonly #scratch = new Uint8Array(512);

  constructor(arena: BodyArena, seed: readonly [number, number] = [0, 0], rowsMax = KEYS_MAX) {
    this.#arena = arena;
    this.#seed = seed;
    this.#rowsMax = rowsMax;
  }

  get isFull(): boolean {
    return this.size >= this.#rowsMax;
  }

  /** When the next key is to be forgotten that nobody has, or Infinity. */
  get nextAtMs(): number {
    const row = this.#windows.top;
    return row < 0 ? Number.POSITIVE_INFINITY : this.untilOf(row);
  }

  /** That key's row, or NO_ROW. */
  get next(): number {
    return this.#windows.top;
  }

  /** Keys that nobody has. */
  get windows(): number {
    return this.#windows.size;
  }

  slotOf(row: number): number {
    return this.#pages[row >>> PAGE_BITS]!.slot[row & PAGE_MASK]!;
  }

  idOf(row: number): number {
    return this.#pages[row >>> PAGE_BITS]!.id[row & PAGE_MASK]!;
  }

  untilOf(row: number): number {
    return this.#pages[row >>> PAGE_BITS]!.untilMs[row & PAGE_MASK]!;
  }

  /** The row of a key, or NO_ROW. */
  find(key: TubeKey): number {
    if (this.size === 0) return NO_ROW;
    const hash = hashOf(key, this.#seed);
    const part = this.#parts[hash >>> 24];
    if (part === undefined) return NO_ROW;
    const mask = part.length - 1;
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const row = part[at]! - 1;
      if (row < 0) return NO_ROW;
      if (this.#pages[row >>> PAGE_BITS]!.hash[row & PAGE_MASK] === hash && this.#isKey(row, key)) return row;
    }
  }

  /**
   * Remembers a key that is not there, for the job in `slot` or NO_HOLDER. Returns its row. Throws RangeError when memory
   * is exhausted, before anything has changed.
   */
  add(key: TubeKey, slot: number, id: number, untilMs: number): number {
    const hash = hashOf(key, this.#seed);
    this.#makeRoom(hash >>> 24);
    if (slot === NO_HOLDER) this.#windows.makeRoom();
    if (this.#freeRow === NO_ROW && this.#rows % PAGE_ROWS === 0) this.#pages.push(new KeyPage());
    const cell = this.#store(key);
    const row = this.#takeRow();
    const page = this.#pages[row >>> PAGE_BITS]!;
    const at = row & PAGE_MASK;
    page.untilMs[at] = untilMs;
    page.id[at] = id;
    page.hash[at] = hash;
    page.cell[at] = cell;
    page.slot[at] = slot;
    this.size++;
    this.#counts[hash >>> 24]!++;
    place(this.#parts[hash >>> 24]!, hash, row + 1);
    if (slot === NO_HOLDER) this.#windows.push(row);
    return row;
  }

  #store({ tube, bytes, start, end }: TubeKey): number {
    const scratch = this.#scratch;
    scratch[0] = tube.length;
    scratch[1] = end - start;
    scratch.set(tube, CELL_HEAD_BYTES);
    scratch.set(bytes.subarray(start, end), CELL_HEAD_BYTES + tube.length);
    const length = CELL_HEAD_BYTES + tube.length + end - start;
    const cell = this.#arena.allocate(length);
    this.#arena.write(cell, 0, scratch, 0, length);
    return cell;
  }

  #takeRow(): number {
    const row = this.#freeRow;
    if (row === NO_ROW) return this.#rows++;
    this.#freeRow = this.slotOf(row);
    return row;
  }

  /** Somebody has a key that nobody had, from now on until its job ends it. */
  hold(row: number, slot: number, id: number): void {
    const page = this.#pages[row >>> PAGE_BITS]!;
    assert(this.slotOf(row) === NO_HOLDER, "a key has one holder");
    this.#windows.remove(row);
    page.slot[row & PAGE_MASK] = slot;
    page.id[row & PAGE_MASK] = id;
  }

  /** Its job has it no more: it is remembered until its time, and then to be removed. */
  letGo(row: number): void {
    assert(this.slotOf(row) !== NO_HOLDER, "a key is let go by its holder");
    this.#pages[row >>> PAGE_BITS]!.slot[row & PAGE_MASK] = NO_HOLDER;
    this.#windows.push(row);
  }

  /** The bytes of a row's key: a byte each for the lengths of tube and key, then both. Valid until the next call. */
  cellOf(row: number): Uint8Array {
    const cell = this.#pages[row >>> PAGE_BITS]!.cell[row & PAGE_MASK]!;
    const scratch = this.#scratch;
    this.#arena.read(cell, 0, scratch, 0, CELL_HEAD_BYTES);
    const length = CELL_HEAD_BYTES + scratch[0]! + scratch[1]!;
    this.#arena.read(cell, 0, scratch, 0, length);
    return scratch.subarray(0, length);
  }

  /** Forgets a key. */
  remove(row: number): void {
    const page = this.#pages[row >>> PAGE_BITS]!;
    const at = row & PAGE_MASK;
    if (page.heapPosition[at]! >= 0) this.#windows.remove(row);
    const hash = page.hash[at]!;
    this.#arena.free(page.cell[at]!);
    this.#takeOut(hash, row + 1);
    page.slot[at] = this.#freeRow;
    this.#freeRow = row;
    this.#counts[hash >>> 24]!--;
    this.size--;
    if (this.size === 0) this.#empty();
  }

  /** Nobody has a key: gives all memory back. */
  #empty(): void {
    for (const page of this.#pages) (page.id.buffer as ArrayBuffer).transfer(0);
    for (const part of this.#parts) (part?.buffer as ArrayBuffer | undefined)?.transfer(0);
    this.#pages.length = 0;
    this.#parts.length = 0;
    this.#freeRow = NO_ROW;
    this.#rows = 0;
  }

  /** Takes an entry out of its part; those behind it move up, so that none is behind a gap. */
  #takeOut(hash: number, entry: number): void {
    const part = this.#parts[hash >>> 24]!;
    const mask = part.length - 1;
    let gap = hash & mask;
    while (part[gap] !== entry) gap = (gap + 1) & mask;
    for (let at = (gap + 1) & mask; part[at] !== 0; at = (at + 1) & mask) {
      const row = part[at]! - 1;
      const home = this.#pages[row >>> PAGE_BITS]!.hash[row & PAGE_MASK]! & mask;
      // It may move to the gap if its place is not between the gap and where it is.
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      part[gap] = part[at]!;
      gap = at;
    }
    part[gap] = 0;
  }

  /** Room for one more in a part, at most three quarters full. */
  #makeRoom(number: number): void {
    const part = this.#parts[number];
    if (part === undefined) {
      this.#parts[number] = new Int32Array(PART_SLOTS_MIN);
      return;
    }
    if ((this.#counts[number]! + 1) * 4 <= part.length * 3) return;
    const larger = new Int32Array(part.length * 2);
    for (const entry of part) {
      if (entry === 0) continue;
      const row = entry - 1;
      place(larger, this.#pages[row >>> PAGE_BITS]!.hash[row & PAGE_MASK]!, entry);
    }
    this.#parts[number] = larger;
  }

  #isKey(row: number, { tube, bytes, start, end }: TubeKey): boolean {
    const cell = this.cellOf(row);
    if (cell[0] !== tube.length || cell[1] !== end - start) return false;
    for (let i = 0; i < tube.length; i++) if (cell[CELL_HEAD_BYTES + i] !== tube[i]) return false;
    const keyAt = CELL_HEAD_BYTES + tube.length;
    for (let i = start; i < end; i++) if (cell[keyAt + i - start] !== bytes[i]) return false;
    return true;
  }
}

function place(part: Int32Array, hash: number, entry: number): void {
  const mask = part.length - 1;
  let at = hash & mask;
  while (part[at] !== 0) at = (at + 1) & mask;
  part[at] = entry;
}

/** HalfSipHash-1-3 of the tube's length, the tube and the key. */
function hashOf({ tube, bytes, start, end }: TubeKey, seed: readonly [number, number]): number {
  sip.begin(seed[0], seed[1]);
  sip.add(tube.length);
  for (let i = 0; i < tube.length; i++) sip.add(tube[i]!);
  for (let i = start; i < end; i++) sip.add(bytes[i]!);
  return sip.end();
}

class HalfSip {
  #v0 = 0;
  #v1 = 0;
  #v2 = 0;
  #v3 = 0;
  #word = 0;
  #count = 0;

  begin(seed0: number, seed1: number): void {
    this.#v0 = seed0;
    this.#v1 = seed1;
    this.#v2 = 0x6c796765 ^ seed0;
    this.#v3 = 0x74656462 ^ seed1;
    this.#word = 0;
    this.#count = 0;
  }

  add(byte: number): void {
    this.#word |= byte << ((this.#count & 3) * 8);
    if ((++this.#count & 3) !== 0) return;
    this.#mix(this.#word);
    this.#word = 0;
  }

  end(): number {
    this.#mix(this.#word | (this.#count << 24));
    this.#v2 ^= 0xff;
    for (let i = 0; i < 3; i++) this.#round();
    return (this.#v1 ^ this.#v3) >>> 0;
  }

  #mix(word: number): void {
    this.#v3 ^= word;
    this.#round();
    this.#v0 ^= word;
  }

  #round(): void {
    let v0 = (this.#v0 + this.#v1) | 0;
    let v1 = rotate(this.#v1, 5) ^ v0;
    v0 = rotate(v0, 16);
    let v2 = (this.#v2 + this.#v3) | 0;
    let v3 = rotate(this.#v3, 8) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = rotate(v3, 7) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = rotate(v1, 13) ^ v2;
    v2 = rotate(v2, 16);
    this.#v0 = v0;
    this.#v1 = v1;
    this.#v2 = v2;
    this.#v3 = v3;
  }
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}

const sip = new HalfSip();
