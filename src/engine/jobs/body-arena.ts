// Job bodies, outside the JavaScript heap: slabs of equal cells by size class for small ones, blocks for big
// ones.
//
// A body is named by a 32-bit handle. Small: `slab number * 65536 + cell`. Big (over CELL_BYTES_MAX): an
// entry of the big table, whose blocks are filled as the bytes arrive, so that a declared size costs nothing
// by itself. A slab or block is one ArrayBuffer; when it empties it is detached, which returns its memory at
// once.

import { assert } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";

const SLAB_BYTES = 1 << 20;
/**
 * Slabs with this few cells empty with every ebb of a queue, and fresh pages cost more than the bodies. At
 * most this much memory of such empty slabs is kept beside the last slab of each class.
 */
const SPARE_CELLS_MAX = 64;
const SPARE_BYTES_MAX = 8 << 20;
const CELLS_PER_SLAB_MAX = 1 << 16;
const BLOCK_BYTES = 1 << 20;
/** Blocks of freed bodies that are kept for the next ones: a fresh one costs a page fault for each 4 KiB. */
const SPARE_BLOCKS_MAX = 8;
const BIG_FLAG = 0x80000000;
/** Slab numbers that fit below BIG_FLAG. */
const SLABS_MAX = 0x7fff;
/** Bodies up to this size live in a cell. */
export const CELL_BYTES_MAX = 65536;
/** The handle of an empty body. */
export const EMPTY_BODY = 0xffffffff;

/** Cell sizes: 16-byte steps to 256, then four steps in each doubling, so that little of a cell is wasted. */
function cellSizes(): number[] {
  const sizes: number[] = [];
  for (let size = 16; size <= 256; size += 16) sizes.push(size);
  for (let base = 256; base < CELL_BYTES_MAX; base *= 2) {
    for (let quarter = 1; quarter <= 4; quarter++) sizes.push(base + (base / 4) * quarter);
  }
  return sizes;
}

const CELL_SIZES = cellSizes();
const NOTHING = new Uint8Array(0);

/** The index of the smallest cell size that holds `bytes`. */
function sizeClassOf(bytes: number): number {
  if (bytes <= 256) return ((bytes + 15) >> 4) - 1;
  const doubling = 31 - Math.clz32(bytes - 1);
  const quarterOfDoubling = ((bytes - 1) >> (doubling - 2)) - 4;
  return 16 + (doubling - 8) * 4 + quarterOfDoubling;
}

class Slab {
  readonly sizeClass: number;
  readonly cellBytes: number;
  readonly cells: number;
  readonly bytes: Uint8Array;
  /** Free cells that were used before, as a stack. */
  readonly #freed: Uint16Array;
  #freedCount = 0;
  #untouched = 0;
  live = 0;
  /** Position in its size class's list of slabs with room, or -1. */
  roomyAt = -1;
  /** Empty, and counted among the spare ones. */
  spare = false;

  constructor(sizeClass: number) {
    this.sizeClass = sizeClass;
    this.cellBytes = CELL_SIZES[sizeClass]!;
    this.cells = Math.min(CELLS_PER_SLAB_MAX, Math.floor(SLAB_BYTES / this.cellBytes));
    this.bytes = new Uint8Array(this.cells * this.cellBytes);
    this.#freed = new Uint16Array(this.cells);
  }

  get full(): boolean {
    return this.live === this.cells;
  }

  take(): number {
    this.live++;
    return this.#freedCount > 0 ? this.#freed[--this.#freedCount]! : this.#untouched++;
  }

  give(cell: number): void {
    this.live--;
    this.#freed[this.#freedCount++] = cell;
  }

  discard(): void {
    (this.bytes.buffer as ArrayBuffer).transfer(0);
  }
}

class BigBody {
  readonly blocks: Uint8Array[] = [];
  bytes = 0;
}

/** A place for bytes of a body, in the arena that it lies in. */
export class BodyPlace {
  arena: BodyArena | undefined;
  handle = 0;
  bytes: Uint8Array = NOTHING;
  at = 0;
  length = 0;
}

/** Says whether what is there now may be, with one more job: see shard/sessions/memory-budget.ts. */
export interface MemoryLimit {
  readonly allows: boolean;
}

/** The arena of one shard. Allocation throws RangeError when memory, or the limit given, is exhausted. */
export class BodyArena {
  readonly #slabs: (Slab | undefined)[] = [];
  readonly #freeSlabNumbers: number[] = [];
  /** For each size class the numbers of its slabs that have a free cell. */
  readonly #roomy: number[][] = CELL_SIZES.map(() => []);
  readonly #bigs: (BigBody | undefined)[] = [];
  readonly #freeBigs: number[] = [];
  readonly #spareBlocks: Uint8Array[] = [];
  /** Handles that replies are still being sent from, with how many; freed when the last lets go. */
  readonly #pins = new Map<number, { count: number; freed: boolean; bytes: number }>();
  readonly #bytesMax: number;
  /** Memory taken from the system, in bytes, but for the spare blocks. */
  reservedBytes = 0;
  /** Memory of the cells and blocks that have a body, or a part of one. */
  usedBytes = 0;
  /** Asked by those who take in new bodies; what the server writes by itself is not limited. */
  limit: MemoryLimit | undefined;
  /** Of `reservedBytes`, memory of empty slabs that could be given back. */
  #spareBytes = 0;

  /** `bytesMax` bounds the memory taken, as a stand-in for the system's own limit. */
  constructor(bytesMax: number = Number.POSITIVE_INFINITY) {
    this.#bytesMax = bytesMax;
  }

  /** Whether what was allocated and written may stay, if it is for a new job. */
  get mayStay(): boolean {
    return this.limit?.allows ?? true;
  }

  /** Room for a body of `bytes` bytes; a big one starts empty and grows by `append`. */
  allocate(bytes: number): number {
    if (bytes === 0) return EMPTY_BODY;
    if (bytes > CELL_BYTES_MAX) return this.#allocateBig();
    const sizeClass = sizeClassOf(bytes);
    const roomy = this.#roomy[sizeClass]!;
    const number = roomy.length > 0 ? roomy[roomy.length - 1]! : this.#addSlab(sizeClass);
    const slab = this.#slabs[number]!;
    const cell = slab.take();
    this.usedBytes += slab.cellBytes;
    if (slab.spare) {
      slab.spare = false;
      this.#spareBytes -= slab.bytes.length;
    }
    if (slab.full) {
      roomy.pop();
      slab.roomyAt = -1;
    }
    return number * CELLS_PER_SLAB_MAX + cell;
  }

  /** Writes `length` bytes at `offset` of a body. Big bodies are written in order, each byte once. */
  write(handle: number, offset: number, source: Uint8Array, start: number, length: number): void {
    if (length === 0) return;
    if (handle >= BIG_FLAG) {
      this.#appendBig(handle, offset, source, start, length);
      return;
    }
    const slab = this.#slabs[handle >>> 16]!;
    copyBytes(slab.bytes, (handle & 0xffff) * slab.cellBytes + offset, source, start, length);
  }

  /** Where the bytes of a body from `offset` on lie, at most `wanted` of them. They stay there while it is pinned. */
  locate(handle: number, offset: number, wanted: number, place: BodyPlace): void {
    place.arena = this;
    place.handle = handle;
    if (handle >= BIG_FLAG) {
      place.bytes = this.#big(handle).blocks[Math.floor(offset / BLOCK_BYTES)]!;
      place.at = offset % BLOCK_BYTES;
      place.length = Math.min(wanted, BLOCK_BYTES - place.at);
      return;
    }
    const slab = this.#slabs[handle >>> 16]!;
    place.bytes = slab.bytes;
    place.at = (handle & 0xffff) * slab.cellBytes + offset;
    place.length = wanted;
  }

  /**
   * The same of bytes that come next, behind `offset` others, for whoever writes them by himself and says so by `filled`. Throws
   * RangeError as `write` does.
   */
  findRoom(handle: number, offset: number, wanted: number, place: BodyPlace): void {
    if (handle >= BIG_FLAG) {
      const big = this.#big(handle);
      assert(offset === big.bytes, "a big body is written in order");
      this.#lastBlock(big);
    }
    this.locate(handle, offset, wanted, place);
  }

  filled(handle: number, length: number): void {
    if (handle >= BIG_FLAG) this.#big(handle).bytes += length;
  }

  /** Copies `length` bytes at `offset` of a body into `target` at `at`. */
  read(handle: number, offset: number, target: Uint8Array, at: number, length: number): void {
    if (length === 0) return;
    if (handle < BIG_FLAG) {
      const slab = this.#slabs[handle >>> 16]!;
      copyBytes(target, at, slab.bytes, (handle & 0xffff) * slab.cellBytes + offset, length);
      return;
    }
    const big = this.#big(handle);
    let done = 0;
    while (done < length) {
      const block = big.blocks[Math.floor((offset + done) / BLOCK_BYTES)]!;
      const from = (offset + done) % BLOCK_BYTES;
      const part = Math.min(length - done, BLOCK_BYTES - from);
      copyBytes(target, at + done, block, from, part);
      done += part;
    }
  }

  /** Keeps a body's bytes until `unpin`, also over `free`: a reply is being sent from them. */
  pin(handle: number): void {
    const pin = this.#pins.get(handle);
    if (pin === undefined) this.#pins.set(handle, { count: 1, freed: false, bytes: 0 });
    else pin.count++;
  }

  unpin(handle: number): void {
    const pin = this.#pins.get(handle);
    assert(pin !== undefined, "only a pinned body is unpinned");
    if (--pin.count > 0) return;
    this.#pins.delete(handle);
    if (pin.freed) this.free(handle);
  }

  free(handle: number): void {
    if (handle === EMPTY_BODY) return;
    if (this.#pins.size > 0) {
      const pin = this.#pins.get(handle);
      if (pin !== undefined) {
        pin.freed = true;
        return;
      }
    }
    if (handle >= BIG_FLAG) this.#freeBig(handle);
    else this.#freeCell(handle);
  }

  #freeCell(handle: number): void {
    const number = handle >>> 16;
    const slab = this.#slabs[number];
    assert(slab !== undefined && slab.live > 0, "a body is freed once");
    const roomy = this.#roomy[slab.sizeClass]!;
    slab.give(handle & 0xffff);
    this.usedBytes -= slab.cellBytes;
    if (slab.roomyAt < 0) {
      slab.roomyAt = roomy.length;
      roomy.push(number);
    }
    // The last slab of a class stays, so that a queue that comes and goes does not allocate.
    if (slab.live > 0 || roomy.length === 1) return;
    if (slab.cells <= SPARE_CELLS_MAX && this.#spareBytes + slab.bytes.length <= SPARE_BYTES_MAX) {
      slab.spare = true;
      this.#spareBytes += slab.bytes.length;
      return;
    }
    const last = roomy.pop()!;
    if (last !== number) {
      roomy[slab.roomyAt] = last;
      this.#slabs[last]!.roomyAt = slab.roomyAt;
    }
    this.reservedBytes -= slab.bytes.length;
    slab.discard();
    this.#slabs[number] = undefined;
    this.#freeSlabNumbers.push(number);
  }

  #reserve(bytes: number): void {
    if (this.reservedBytes + bytes > this.#bytesMax)
      throw new RangeError("the memory limit for bodies is reached");
  }

  #addSlab(sizeClass: number): number {
    this.#reserve(SLAB_BYTES);
    const slab = new Slab(sizeClass);
    const number = this.#freeSlabNumbers.pop() ?? this.#slabs.length;
    if (number >= SLABS_MAX) throw new RangeError("a shard holds 32 GiB of bodies");
    this.#slabs[number] = slab;
    this.reservedBytes += slab.bytes.length;
    slab.roomyAt = this.#roomy[sizeClass]!.length;
    this.#roomy[sizeClass]!.push(number);
    return number;
  }

  #allocateBig(): number {
    const number = this.#freeBigs.pop() ?? this.#bigs.length;
    this.#bigs[number] = new BigBody();
    return BIG_FLAG + number;
  }

  #big(handle: number): BigBody {
    const big = this.#bigs[handle - BIG_FLAG];
    assert(big !== undefined, "a body is there until it is freed");
    return big;
  }

  #appendBig(handle: number, offset: number, source: Uint8Array, start: number, length: number): void {
    const big = this.#big(handle);
    assert(offset === big.bytes, "a big body is written in order");
    let done = 0;
    while (done < length) {
      const at = big.bytes % BLOCK_BYTES;
      const part = Math.min(length - done, BLOCK_BYTES - at);
      copyBytes(this.#lastBlock(big), at, source, start + done, part);
      big.bytes += part;
      done += part;
    }
  }

  /** The block that its next byte belongs to. */
  #lastBlock(big: BigBody): Uint8Array {
    const { blocks } = big;
    if (blocks.length * BLOCK_BYTES > big.bytes) return blocks[blocks.length - 1]!;
    this.#reserve(BLOCK_BYTES);
    const block = this.#spareBlocks.pop() ?? new Uint8Array(BLOCK_BYTES);
    blocks.push(block);
    this.reservedBytes += BLOCK_BYTES;
    this.usedBytes += BLOCK_BYTES;
    return block;
  }

  #freeBig(handle: number): void {
    const big = this.#big(handle);
    for (const block of big.blocks) {
      this.reservedBytes -= BLOCK_BYTES;
      this.usedBytes -= BLOCK_BYTES;
      if (this.#spareBlocks.length < SPARE_BLOCKS_MAX) this.#spareBlocks.push(block);
      else (block.buffer as ArrayBuffer).transfer(0);
    }
    this.#bigs[handle - BIG_FLAG] = undefined;
    this.#freeBigs.push(handle - BIG_FLAG);
  }
}
