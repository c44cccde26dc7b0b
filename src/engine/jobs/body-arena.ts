// Memory for job bodies outside the JavaScript heap: slabs of equal cells by size class for small
// bodies, blocks for big ones.
//
// A 32-bit handle names a body. For a small one, it is `slab number * 65536 + cell`. For a big one
// (over CELL_BYTES_MAX), it names an entry of the big table. Blocks are allocated as the bytes
// arrive, so a declared size alone costs nothing. A slab or block is one ArrayBuffer; when empty,
// it is detached, which returns its memory at once.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";

const SLAB_BYTES = 1 << 20;
/**
 * Slabs with at most this many cells become empty whenever a queue drains, and fresh pages cost
 * more than the bodies. The arena keeps up to this much memory of such slabs, besides the last slab
 * of each class.
 */
const SPARE_CELLS_MAX = 64;
const SPARE_BYTES_MAX = 8 << 20;
const CELLS_PER_SLAB_MAX = 1 << 16;
const BLOCK_BYTES = 1 << 20;
/**
 * Number of blocks of freed bodies to keep for reuse: a fresh block costs a page fault per 4 KiB.
 */
const SPARE_BLOCKS_MAX = 8;
const BIG_FLAG = 0x80000000;
/** Number of slab numbers below BIG_FLAG. */
const SLABS_MAX = 0x7fff;
/** Bodies up to this size use a cell. */
export const CELL_BYTES_MAX = 65536;
/** The handle of an empty body. */
export const EMPTY_BODY = 0xffffffff;

/**
 * Returns the cell sizes: 16-byte steps to 256, then four steps per doubling, so that cells waste
 * little.
 */
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

/** Returns the index of the smallest cell size that holds `bytes`. */
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
  /** A stack of free cells that were used before. */
  readonly #freed: Uint16Array;
  /** A bit for each cell. */
  readonly #isFreed: Uint8Array | undefined;
  #freedCount = 0;
  #untouched = 0;
  live = 0;
  /** Position in its size class's list of slabs with room, or -1. */
  roomyAt = -1;
  /** Whether the slab is empty and counted as spare. */
  spare = false;

  constructor(sizeClass: number) {
    this.sizeClass = sizeClass;
    this.cellBytes = CELL_SIZES[sizeClass]!;
    this.cells = Math.min(CELLS_PER_SLAB_MAX, Math.floor(SLAB_BYTES / this.cellBytes));
    this.bytes = new Uint8Array(this.cells * this.cellBytes);
    this.#freed = new Uint16Array(this.cells);
    this.#isFreed = CHECKED ? new Uint8Array(Math.ceil(this.cells / 8)) : undefined;
  }

  take(): number {
    this.live++;
    const cell = this.#freedCount > 0 ? this.#freed[--this.#freedCount]! : this.#untouched++;
    if (CHECKED) this.#isFreed![cell >>> 3]! &= ~(1 << (cell & 7));
    return cell;
  }

  give(cell: number): void {
    if (CHECKED) this.#check(cell);
    this.live--;
    this.#freed[this.#freedCount++] = cell;
  }

  #check(cell: number): void {
    assert(cell < this.#untouched, "a cell was taken before it is freed");
    assert(this.live + this.#freedCount === this.#untouched, "each cell is live, freed or untouched");
    const bit = 1 << (cell & 7);
    assert((this.#isFreed![cell >>> 3]! & bit) === 0, "a cell is freed once");
    this.#isFreed![cell >>> 3]! |= bit;
  }

  discard(): void {
    assert(this.live === 0, "only an empty slab is discarded");
    (this.bytes.buffer as ArrayBuffer).transfer(0);
  }
}

class BigBody {
  readonly blocks: Uint8Array[] = [];
  bytes = 0;
}

/** The location of bytes of a body in its arena. */
export class BodyPlace {
  arena: BodyArena | undefined;
  handle = 0;
  bytes: Uint8Array = NOTHING;
  at = 0;
  length = 0;
}

/**
 * Tells whether the current memory use, plus one more job, is allowed: see
 * shard/sessions/memory-budget.ts.
 */
export interface MemoryLimit {
  readonly allows: boolean;
}

const NO_LIMIT: MemoryLimit = { allows: true };

/**
 * The body arena of one shard. Allocation throws RangeError when memory, or the given limit, is
 * exhausted.
 */
export class BodyArena {
  readonly #slabs: (Slab | undefined)[] = [];
  readonly #freeSlabNumbers: number[] = [];
  /** For each size class, the numbers of its slabs that have a free cell. */
  readonly #roomy: number[][] = CELL_SIZES.map(() => []);
  readonly #bigs: (BigBody | undefined)[] = [];
  readonly #freeBigs: number[] = [];
  readonly #spareBlocks: Uint8Array[] = [];
  /**
   * Handles from which replies are being sent, each with a count; the last unpin frees the body.
   */
  readonly #pins = new Map<number, { count: number; freed: boolean; bytes: number }>();
  readonly #bytesMax: number;
  /** Bytes taken from the system, except for the spare blocks. */
  reservedBytes = 0;
  /** Bytes of the cells and blocks in use. */
  usedBytes = 0;
  /** Consulted for new bodies from clients; the server's own bodies are not limited. */
  limit: MemoryLimit = NO_LIMIT;
  /** The part of `reservedBytes` in empty slabs that could be returned. */
  #spareBytes = 0;

  /** `bytesMax` bounds the memory taken, as a substitute for the system's own limit. */
  constructor(bytesMax: number = Number.POSITIVE_INFINITY) {
    this.#bytesMax = bytesMax;
  }

  /** Allocates a body of `bytes` bytes; a big one starts empty and grows as it is written. */
  allocate(bytes: number): number {
    if (bytes === 0) return EMPTY_BODY;
    if (bytes > CELL_BYTES_MAX) return this.#allocateBig();
    const sizeClass = sizeClassOf(bytes);
    const roomy = this.#roomy[sizeClass]!;
    const number = roomy.length > 0 ? roomy[roomy.length - 1]! : this.#addSlab(sizeClass);
    const slab = this.#slabs[number]!;
    assert(slab.cellBytes >= bytes, "a cell holds its body");
    const cell = slab.take();
    this.usedBytes += slab.cellBytes;
    if (slab.spare) {
      slab.spare = false;
      this.#spareBytes -= slab.bytes.length;
      assert(this.#spareBytes >= 0, "a spare slab was counted");
    }
    if (slab.live === slab.cells) {
      roomy.pop();
      slab.roomyAt = -1;
    }
    return number * CELLS_PER_SLAB_MAX + cell;
  }

  /**
   * Writes `length` bytes at `offset` of a body. Big bodies must be written in order, each byte
   * once.
   */
  write(handle: number, offset: number, source: Uint8Array, start: number, length: number): void {
    if (length === 0) return;
    if (handle >= BIG_FLAG) {
      this.#appendBig(handle, offset, source, start, length);
      return;
    }
    const slab = this.#slabs[handle >>> 16]!;
    assert(offset + length <= slab.cellBytes, "a body is written within its cell");
    copyBytes(slab.bytes, (handle & 0xffff) * slab.cellBytes + offset, source, start, length);
  }

  /**
   * Locates up to `wanted` bytes of a body from `offset` on. They stay in place while the body is
   * pinned.
   */
  locate(handle: number, offset: number, wanted: number, place: BodyPlace): void {
    place.arena = this;
    place.handle = handle;
    if (handle >= BIG_FLAG) {
      assert(offset <= this.#big(handle).bytes, "a big body is located as far as it was written");
      place.bytes = this.#big(handle).blocks[Math.floor(offset / BLOCK_BYTES)]!;
      place.at = offset % BLOCK_BYTES;
      place.length = Math.min(wanted, BLOCK_BYTES - place.at);
      return;
    }
    const slab = this.#slabs[handle >>> 16]!;
    assert(offset + wanted <= slab.cellBytes, "a body is located within its cell");
    place.bytes = slab.bytes;
    place.at = (handle & 0xffff) * slab.cellBytes + offset;
    place.length = wanted;
  }

  /**
   * Locates room for the next bytes of a body, after `offset` others. The caller writes them itself
   * and then calls `filled`. Throws RangeError as `write` does.
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
    if (handle < BIG_FLAG) return;
    const big = this.#big(handle);
    big.bytes += length;
    assert(big.bytes <= big.blocks.length * BLOCK_BYTES, "a big body is filled as far as it has room");
  }

  /** Copies `length` bytes at `offset` of a body into `target` at `at`. */
  read(handle: number, offset: number, target: Uint8Array, at: number, length: number): void {
    if (length === 0) return;
    if (handle < BIG_FLAG) {
      const slab = this.#slabs[handle >>> 16]!;
      assert(offset + length <= slab.cellBytes, "a body is read within its cell");
      copyBytes(target, at, slab.bytes, (handle & 0xffff) * slab.cellBytes + offset, length);
      return;
    }
    const big = this.#big(handle);
    assert(offset + length <= big.bytes, "a big body is read as far as it was written");
    let done = 0;
    while (done < length) {
      const block = big.blocks[Math.floor((offset + done) / BLOCK_BYTES)]!;
      const from = (offset + done) % BLOCK_BYTES;
      const part = Math.min(length - done, BLOCK_BYTES - from);
      copyBytes(target, at + done, block, from, part);
      done += part;
    }
  }

  /**
   * Keeps a body's bytes until `unpin`, even across `free`, because a reply is being sent from
   * them.
   */
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
        assert(!pin.freed, "a pinned body is freed once");
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
    assert(this.usedBytes >= 0, "bytes of bodies in use are counted");
    if (slab.roomyAt < 0) {
      slab.roomyAt = roomy.length;
      roomy.push(number);
    }
    // The last slab of a class stays, so that a queue that fills and empties does not allocate.
    if (slab.live > 0 || roomy.length === 1) return;
    assert(!slab.spare, "a slab in use is not spare");
    assert(roomy[slab.roomyAt] === number, "a slab with room is at its position in the list");
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
    assert(this.reservedBytes >= 0, "bytes taken from the system are counted");
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
    assert(this.#slabs[number] === undefined, "a slab's number is free");
    this.#slabs[number] = slab;
    this.reservedBytes += slab.bytes.length;
    slab.roomyAt = this.#roomy[sizeClass]!.length;
    this.#roomy[sizeClass]!.push(number);
    return number;
  }

  #allocateBig(): number {
    const number = this.#freeBigs.pop() ?? this.#bigs.length;
    assert(this.#bigs[number] === undefined, "a big body's number is free");
    this.#bigs[number] = new BigBody();
    return BIG_FLAG + number;
  }

  #big(handle: number): BigBody {
    const big = this.#bigs[handle - BIG_FLAG];
    assert(big !== undefined, "a body exists until it is freed");
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

  /** Returns the block for the body's next byte. */
  #lastBlock(big: BigBody): Uint8Array {
    const { blocks } = big;
    if (blocks.length * BLOCK_BYTES > big.bytes) return blocks[blocks.length - 1]!;
    assert(blocks.length * BLOCK_BYTES === big.bytes, "a big body has the blocks of its bytes");
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
    assert(this.usedBytes >= 0 && this.reservedBytes >= 0, "the blocks of a big body were counted");
    this.#bigs[handle - BIG_FLAG] = undefined;
    this.#freeBigs.push(handle - BIG_FLAG);
  }
}
