// Buffers that come and go with every batch, kept by size, so that a large body costs no allocation and no
// clearing.

const SMALLEST_BITS = 12;
const LARGEST_BITS = 18;
/**
 * Buffers kept of each size: 1 to 4 MiB, 20 MiB in all. With 64 of 64 KiB fifty clients with bodies of that size need no fresh
 * ones; with 8 a quarter of the time went into collecting those that were dropped. With 1,024 of 4 KiB five hundred clients whose
 * replies wait for the log together need none.
 */
const KEPT = [1024, 128, 64, 64, 64, 32, 16];

/** Sizes are powers of two from 4 KiB to 256 KiB; larger buffers are made to measure and not kept. */
export class BufferPool {
  readonly #free: Uint8Array[][] = KEPT.map(() => []);

  /** A buffer of at least `bytes` bytes, with anything in it. */
  take(bytes: number): Uint8Array {
    const bits = Math.max(SMALLEST_BITS, 32 - Math.clz32(bytes - 1));
    if (bits > LARGEST_BITS) return uncleared(bytes);
    return this.#free[bits - SMALLEST_BITS]!.pop() ?? uncleared(1 << bits);
  }

  /** Memory of the buffers that nobody uses now. */
  get keptBytes(): number {
    return this.#free.reduce((bytes, free, size) => bytes + free.length * (1 << (SMALLEST_BITS + size)), 0);
  }

  /** Takes a buffer back that nobody uses any more. */
  give(buffer: Uint8Array): void {
    const bits = 31 - Math.clz32(buffer.length);
    if (bits < SMALLEST_BITS || bits > LARGEST_BITS || buffer.length !== 1 << bits) return;
    const free = this.#free[bits - SMALLEST_BITS]!;
    if (free.length < KEPT[bits - SMALLEST_BITS]!) free.push(buffer);
  }
}

/** Memory that is not cleared first; as a plain array, because a Buffer's `slice` does not copy. */
function uncleared(bytes: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
}

/** The pool of this thread. */
export const buffers: BufferPool = new BufferPool();
