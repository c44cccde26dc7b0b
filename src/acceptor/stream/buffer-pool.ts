// A pool of buffers that are needed for a moment only, kept by size. It saves large bodies the
// allocation and clearing of memory.

const SMALLEST_BITS = 12;
const LARGEST_BITS = 18;
/**
 * Buffers kept of each size: 1 to 4 MiB, 20 MiB in all. With 64 of 64 KiB, fifty clients with
 * bodies of that size need no new ones; with 8, garbage collection of dropped buffers took a
 * quarter of the time. With 1,024 of 4 KiB, five hundred clients whose replies wait for the log
 * together need no new ones.
 */
const KEPT = [1024, 128, 64, 64, 64, 32, 16];

/**
 * Sizes are powers of two from 4 KiB to 256 KiB. Larger buffers are allocated to size and not kept.
 */
class BufferPool {
  readonly #free: Uint8Array[][] = KEPT.map(() => []);

  /** Returns a buffer of at least `bytes` bytes, with arbitrary contents. */
  take(bytes: number): Uint8Array {
    const bits = Math.max(SMALLEST_BITS, 32 - Math.clz32(bytes - 1));
    if (bits > LARGEST_BITS) return uncleared(bytes);
    return this.#free[bits - SMALLEST_BITS]!.pop() ?? uncleared(1 << bits);
  }

  /** The memory of the unused buffers. */
  get keptBytes(): number {
    return this.#free.reduce((bytes, free, size) => bytes + free.length * (1 << (SMALLEST_BITS + size)), 0);
  }

  /** Takes back a buffer that is no longer used. */
  give(buffer: Uint8Array): void {
    const bits = 31 - Math.clz32(buffer.length);
    if (bits < SMALLEST_BITS || bits > LARGEST_BITS || buffer.length !== 1 << bits) return;
    const free = this.#free[bits - SMALLEST_BITS]!;
    if (free.length < KEPT[bits - SMALLEST_BITS]!) free.push(buffer);
  }
}

/** Returns uncleared memory. It is a plain array, because a Buffer's `slice` does not copy. */
function uncleared(bytes: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
}

/** The pool of this thread. */
export const buffers: BufferPool = new BufferPool();
