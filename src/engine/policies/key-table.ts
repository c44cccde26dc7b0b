// The unique keys of a shard: which job holds each, and how long it is remembered afterwards.
//
// A key belongs to a tube. Rows are columns of typed arrays in pages, 32 bytes each; the key itself
// is a cell of the body arena. A hash finds rows in 256 tables with open addressing. Each table
// grows on its own, so no put waits for a million keys to be rehashed. Lookups compare the bytes,
// so keys with equal hashes stay distinct. The hash has a seed that clients don't know; otherwise
// they could construct colliding keys.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import type { BodyArena } from "../jobs/body-arena.ts";
import { type EarliestTime, IndexedHeap } from "../queues/heaps.ts";

// The hash of unique keys, with a seed that clients don't know.

/** Returns HalfSipHash-1-3 of `bytes[start, end)`. */
export function hashOf(bytes: Uint8Array, start: number, end: number, seed0: number, seed1: number): number {
  let v0 = seed0;
  let v1 = seed1;
  let v2 = 0x6c796765 ^ seed0;
  let v3 = 0x74656462 ^ seed1;
  // Words of four bytes, then the rest and the length; three rounds without a word follow.
  let at = start;
  for (let left = 4; left > 0; ) {
    let word = 0;
    if (at + 4 <= end) {
      word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
      at += 4;
    } else {
      if (left === 4) {
        word = (end - start) << 24;
        for (let shift = 0; at < end; shift += 8) word |= bytes[at++]! << shift;
      } else if (left === 3) v2 ^= 0xff;
      left--;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return (v1 ^ v3) >>> 0;
}

export const NO_ROW = -1;
/** No job holds the key. */
export const NO_HOLDER = -1;
/**
 * A shard with this many keys takes no new ones. A restart may restore more, if the server has
 * fewer shards than before.
 */
export const KEYS_MAX: number = 1 << 20;

const PAGE_BITS = 12;
const PAGE_ROWS = 1 << PAGE_BITS;
const PAGE_MASK = PAGE_ROWS - 1;
const PARTS = 256;
const PART_SLOTS_MIN = 8;
// An entry of a part: row + 1 in the low bits, and above it the low bits of the row's hash. Most
// non-matching entries are thus skipped without reading their rows, which are scattered in memory.
const ENTRY_ROW_BITS = 21;
// The same in a table with more rows, which has room for KEYS_MAX keys from each of 64 shards.
const WIDE_ROW_BITS = 27;
/** A cell: one byte each for the lengths of tube and key, then both. */
const CELL_HEAD_BYTES = 2;
const CELL_BYTES_MAX = 512;

class KeyPage {
  /** Monotonic ms; 0 if the key ends with its job. */
  readonly untilMs: Float64Array;
  /** The job that holds or held the key. */
  readonly id: Float64Array;
  readonly hash: Uint32Array;
  readonly cell: Uint32Array;
  /** Slot of the job that holds the key, or NO_HOLDER; for a free row, the next free one. */
  readonly slot: Int32Array;
  /** Position among the keys without holder, ordered by `untilMs`; or -1. */
  readonly heapPosition: Int32Array;
  /** The id of the key's record in the log, if that is not its job's id; else 0. */
  record: Float64Array | undefined;

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

/** Keys without holder, the first to be forgotten first. */
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
  /** Number of keys that are held or remembered. */
  size = 0;
  readonly #arena: BodyArena;
  readonly #pages: KeyPage[] = [];
  /** Entries by hash; the length of each part is a power of two. Undefined for an empty part. */
  readonly #parts: (Int32Array | undefined)[] = [];
  readonly #counts = new Uint32Array(PARTS);
  readonly #windows = new WindowHeap(this.#pages);
  readonly #seed0: number;
  readonly #seed1: number;
  readonly #rowsMax: number;
  #freeRow: number = NO_ROW;
  #rows = 0;
  #rowBits = ENTRY_ROW_BITS;
  /** The last key looked up, as a cell, and its hash. */
  readonly #asked = new Uint8Array(CELL_BYTES_MAX);
  #askedBytes = 0;
  #askedHash = 0;
  /** The name of that key's tube, and its hash: the next key often has the same tube. */
  #askedTube: Uint8Array = this.#asked;
  #askedTubeHash = 0;
  readonly #scratch = new Uint8Array(CELL_BYTES_MAX);
  readonly #earliest: EarliestTime | undefined;

  /** Keeps `earliest` up to date with `nextAtMs`. */
  constructor(
    arena: BodyArena,
    seed: readonly [number, number] = [0, 0],
    rowsMax = KEYS_MAX,
    earliest?: EarliestTime,
  ) {
    this.#arena = arena;
    this.#seed0 = seed[0];
    this.#seed1 = seed[1];
    this.#rowsMax = rowsMax;
    this.#earliest = earliest;
    earliest?.join(this);
  }

  /** Whether puts must not add keys; `add` does so all the same. */
  get isFull(): boolean {
    return this.size >= this.#rowsMax;
  }

  /** When the next key without holder is to be forgotten, or Infinity. Read by every command. */
  nextAtMs: number = Number.POSITIVE_INFINITY;
  #isOverdue = false;

  /** Forces `nextAtMs` into the past, because the owner has other work. */
  set overdue(isOverdue: boolean) {
    this.#isOverdue = isOverdue;
    this.#updateNext();
  }

  #updateNext(): void {
    const row = this.#windows.top;
    if (this.#isOverdue) this.nextAtMs = Number.NEGATIVE_INFINITY;
    else this.nextAtMs = row < 0 ? Number.POSITIVE_INFINITY : this.untilOf(row);
    if (CHECKED) assert(!Number.isNaN(this.nextAtMs), "a key is forgotten at a time");
    this.#earliest?.changed();
  }

  /** The row of that key, or NO_ROW. */
  get next(): number {
    return this.#windows.top;
  }

  /** Number of keys without holder. */
  get windows(): number {
    return this.#windows.size;
  }

  slotOf(row: number): number {
    if (CHECKED) assert(row >= 0 && row < this.#rows, "a key with a slot has a row");
    return this.#pages[row >>> PAGE_BITS]!.slot[row & PAGE_MASK]!;
  }

  idOf(row: number): number {
    if (CHECKED) assert(row >= 0 && row < this.#rows, "a key with an id has a row in use");
    return this.#pages[row >>> PAGE_BITS]!.id[row & PAGE_MASK]!;
  }

  untilOf(row: number): number {
    if (CHECKED) assert(row >= 0 && row < this.#rows, "a key with a time has a row");
    return this.#pages[row >>> PAGE_BITS]!.untilMs[row & PAGE_MASK]!;
  }

  /** Returns the id of the record that the key has in the log apart from its job, or 0. */
  recordOf(row: number): number {
    if (CHECKED) assert(row >= 0 && row < this.#rows, "a key with a record has a row");
    return this.#pages[row >>> PAGE_BITS]!.record?.[row & PAGE_MASK] ?? 0;
  }

  /** Makes room for the record of a key. Throws RangeError when memory is exhausted. */
  makeRecord(row: number): void {
    this.#pages[row >>> PAGE_BITS]!.record ??= new Float64Array(PAGE_ROWS);
  }

  /** Sets the record of a key after `makeRecord`, or 0 for none. */
  setRecord(row: number, record: number): void {
    const records = this.#pages[row >>> PAGE_BITS]!.record;
    assert(records !== undefined || record === 0, "there is room for the record of a key");
    if (records !== undefined) records[row & PAGE_MASK] = record;
  }

  /** Returns the row of a key, or NO_ROW. */
  find(key: TubeKey): number {
    this.#ask(key);
    if (this.size === 0) return NO_ROW;
    const hash = this.#askedHash;
    const part = this.#parts[hash >>> 24];
    if (part === undefined) return NO_ROW;
    const mask = part.length - 1;
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const entry = part[at]!;
      if (entry === 0) return NO_ROW;
      if (entry >>> this.#rowBits !== (hash & hashMask(this.#rowBits))) continue;
      const row = this.#rowOfEntry(entry);
      if (this.#hashOfRow(row) === hash && this.#isAsked(row)) return row;
    }
  }

  /** Encodes a key as a cell, and hashes it. */
  #ask({ tube, bytes, start, end }: TubeKey): void {
    if (tube !== this.#askedTube) this.#askTube(tube);
    const asked = this.#asked;
    const keyAt = CELL_HEAD_BYTES + tube.length;
    asked[1] = end - start;
    copyBytes(asked, keyAt, bytes, start, end - start);
    this.#askedBytes = keyAt + end - start;
    assert(end >= start && this.#askedBytes <= CELL_BYTES_MAX, "a key fits into a cell");
    this.#askedHash = hashOf(asked, keyAt, this.#askedBytes, this.#seed0 ^ this.#askedTubeHash, this.#seed1);
  }

  /**
   * Writes and hashes another tube's name. The bytes of `tube` never change, so the caller can
   * recognise it by identity.
   */
  #askTube(tube: Uint8Array): void {
    assert(tube.length <= 0xff, "the length of a tube's name fits into a byte");
    this.#asked[0] = tube.length;
    copyBytes(this.#asked, CELL_HEAD_BYTES, tube, 0, tube.length);
    this.#askedTube = tube;
    this.#askedTubeHash = hashOf(tube, 0, tube.length, this.#seed0, this.#seed1);
  }

  /**
   * Adds a missing key for the job in `slot`, or NO_HOLDER. Returns its row. Throws RangeError when
   * memory is exhausted, before anything has changed.
   */
  add(key: TubeKey, slot: number, id: number, untilMs: number): number {
    this.#ask(key);
    return this.addAsked(slot, id, untilMs);
  }

  /** Does the same for the key that `find` has just not found. */
  addAsked(slot: number, id: number, untilMs: number): number {
    assert(untilMs >= 0 && id > 0, "a key has the id of a job, and a time or none");
    const hash = this.#askedHash;
    this.#makeRoom(hash >>> 24);
    if (slot === NO_HOLDER) this.#windows.makeRoom();
    if (this.#freeRow === NO_ROW && this.#rows === this.#pages.length << PAGE_BITS)
      this.#pages.push(new KeyPage());
    const cell = this.#arena.allocate(this.#askedBytes);
    this.#arena.write(cell, 0, this.#asked, 0, this.#askedBytes);
    const row = this.#takeRow();
    const page = this.#pages[row >>> PAGE_BITS]!;
    const at = row & PAGE_MASK;
    page.untilMs[at] = untilMs;
    page.id[at] = id;
    page.hash[at] = hash;
    page.cell[at] = cell;
    page.slot[at] = slot;
    this.size++;
    assert(this.size <= this.#rows, "each key has a row");
    this.#counts[hash >>> 24]!++;
    place(this.#parts[hash >>> 24]!, hash, this.#entryOf(row, hash));
    if (slot === NO_HOLDER) {
      this.#windows.push(row);
      this.#updateNext();
    }
    return row;
  }

  #takeRow(): number {
    const row = this.#freeRow;
    if (row === NO_ROW) {
      if (this.#rows + 1 === 1 << this.#rowBits) this.#widen();
      return this.#rows++;
    }
    this.#freeRow = this.slotOf(row);
    assert(this.#freeRow !== row, "a row is freed once");
    return row;
  }

  /** Makes room for greater numbers of rows in all entries. These stay where they are. */
  #widen(): void {
    assert(this.#rowBits < WIDE_ROW_BITS, "64 shards have fewer keys");
    const narrowMask = (1 << this.#rowBits) - 1;
    this.#rowBits = WIDE_ROW_BITS;
    for (const part of this.#parts) {
      if (part === undefined) continue;
      for (let at = 0; at < part.length; at++) {
        if (part[at] === 0) continue;
        const row = (part[at]! & narrowMask) - 1;
        part[at] = this.#entryOf(row, this.#hashOfRow(row));
      }
    }
  }

  /** Sets the time until which a key is remembered. */
  lastUntil(row: number, untilMs: number): void {
    assert(untilMs > 0, "a key is remembered until a time");
    const isFree = this.slotOf(row) === NO_HOLDER;
    if (isFree) this.#windows.remove(row);
    this.#pages[row >>> PAGE_BITS]!.untilMs[row & PAGE_MASK] = untilMs;
    if (!isFree) return;
    this.#windows.push(row);
    this.#updateNext();
  }

  /** Assigns a free key to a job, which holds it until it ends. */
  hold(row: number, slot: number, id: number): void {
    const page = this.#pages[row >>> PAGE_BITS]!;
    assert(this.slotOf(row) === NO_HOLDER, "a key has one holder");
    this.#windows.remove(row);
    this.#updateNext();
    page.slot[row & PAGE_MASK] = slot;
    page.id[row & PAGE_MASK] = id;
  }

  /**
   * Ends the job's hold on a key, which is remembered until its time; then it has to be removed.
   */
  letGo(row: number): void {
    assert(this.untilOf(row) > 0, "a key without holder is remembered until a time");
    assert(this.slotOf(row) !== NO_HOLDER, "a key is let go by its holder");
    this.#pages[row >>> PAGE_BITS]!.slot[row & PAGE_MASK] = NO_HOLDER;
    this.#windows.push(row);
    this.#updateNext();
  }

  /**
   * Returns the cell of a row's key: one byte each for the lengths of tube and key, then both.
   * Valid until the next call.
   */
  cellOf(row: number): Uint8Array {
    const cell = this.#pages[row >>> PAGE_BITS]!.cell[row & PAGE_MASK]!;
    const scratch = this.#scratch;
    this.#arena.read(cell, 0, scratch, 0, CELL_HEAD_BYTES);
    const length = CELL_HEAD_BYTES + scratch[0]! + scratch[1]!;
    assert(length <= CELL_BYTES_MAX, "a cell has the lengths of its tube and its key");
    this.#arena.read(cell, 0, scratch, 0, length);
    return scratch.subarray(0, length);
  }

  /** Yields the rows of all keys. */
  *rows(): Iterable<number> {
    for (const part of this.#parts)
      for (const entry of part ?? []) if (entry !== 0) yield this.#rowOfEntry(entry);
  }

  remove(row: number): void {
    assert(row >= 0 && row < this.#rows && this.size > 0, "a key is removed once");
    const page = this.#pages[row >>> PAGE_BITS]!;
    const at = row & PAGE_MASK;
    if (page.heapPosition[at]! >= 0) {
      this.#windows.remove(row);
      this.#updateNext();
    }
    const hash = page.hash[at]!;
    this.#arena.free(page.cell[at]!);
    this.#takeOut(hash, this.#entryOf(row, hash));
    page.slot[at] = this.#freeRow;
    if (page.record !== undefined) page.record[at] = 0;
    this.#freeRow = row;
    this.#counts[hash >>> 24]!--;
    this.size--;
    if (this.size === 0) this.#empty();
  }

  /**
   * Releases memory when there are no keys, except for one page, so that keys that come and go
   * don't allocate.
   */
  #empty(): void {
    assert(this.#windows.size === 0, "a table without keys remembers none");
    if (CHECKED)
      assert(
        this.#counts.every((count) => count === 0),
        "a table without keys has empty parts",
      );
    this.#freeRow = NO_ROW;
    this.#rows = 0;
    if (this.#pages.length === 1) return;
    while (this.#pages.length > 1) {
      const { id, record } = this.#pages.pop()!;
      (id.buffer as ArrayBuffer).transfer(0);
      (record?.buffer as ArrayBuffer | undefined)?.transfer(0);
    }
    for (const part of this.#parts) (part?.buffer as ArrayBuffer | undefined)?.transfer(0);
    this.#parts.length = 0;
    this.#rowBits = ENTRY_ROW_BITS;
  }

  /** Removes an entry from its part, and moves up entries after it so that none follows a gap. */
  #takeOut(hash: number, entry: number): void {
    const part = this.#parts[hash >>> 24]!;
    const mask = part.length - 1;
    let gap = hash & mask;
    while (part[gap] !== entry) {
      assert(part[gap] !== 0, "an entry is found from its home on");
      gap = (gap + 1) & mask;
    }
    for (let at = (gap + 1) & mask; part[at] !== 0; at = (at + 1) & mask) {
      const home = this.#hashOfEntry(part[at]!, mask) & mask;
      // The entry may move to the gap unless its home is between the gap and its position.
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      part[gap] = part[at]!;
      gap = at;
    }
    part[gap] = 0;
  }

  /** Makes room for one more entry in a part, which stays at most three quarters full. */
  #makeRoom(number: number): void {
    const part = this.#parts[number];
    if (part === undefined) {
      this.#parts[number] = new Int32Array(PART_SLOTS_MIN);
      return;
    }
    assert(this.#counts[number]! < part.length, "a part has a gap");
    if ((this.#counts[number]! + 1) * 4 <= part.length * 3) return;
    const larger = new Int32Array(part.length * 2);
    for (const entry of part) {
      if (entry === 0) continue;
      place(larger, this.#hashOfEntry(entry, larger.length - 1), entry);
    }
    this.#parts[number] = larger;
    if (part.length > PART_SLOTS_MIN) (part.buffer as ArrayBuffer).transfer(0);
  }

  /** Returns the low bits of an entry's hash, at least those of `mask`. */
  #hashOfEntry(entry: number, mask: number): number {
    return mask <= hashMask(this.#rowBits)
      ? entry >>> this.#rowBits
      : this.#hashOfRow(this.#rowOfEntry(entry));
  }

  #entryOf(row: number, hash: number): number {
    assert(row + 1 < 1 << this.#rowBits, "the number of a row fits into an entry");
    return ((hash & hashMask(this.#rowBits)) << this.#rowBits) | (row + 1);
  }

  #rowOfEntry(entry: number): number {
    return (entry & ((1 << this.#rowBits) - 1)) - 1;
  }

  #hashOfRow(row: number): number {
    return this.#pages[row >>> PAGE_BITS]!.hash[row & PAGE_MASK]!;
  }

  #isAsked(row: number): boolean {
    const cell = this.cellOf(row);
    if (cell.length !== this.#askedBytes) return false;
    for (let i = 0; i < cell.length; i++) if (cell[i] !== this.#asked[i]) return false;
    return true;
  }
}

/** Returns the mask of the low bits of a hash in an entry with this many bits of a row. */
function hashMask(rowBits: number): number {
  return (1 << (32 - rowBits)) - 1;
}

function place(part: Int32Array, hash: number, entry: number): void {
  const mask = part.length - 1;
  let at = hash & mask;
  while (part[at] !== 0) at = (at + 1) & mask;
  part[at] = entry;
}
