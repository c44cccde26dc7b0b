// The buffers into which the kernel receives. The kernel uses all of them in turn. So only a few
// are offered at first, and more whenever the kernel runs out: with few connections, the buffers
// stay in the caches.

import { assert } from "../base/assert.ts";
import { halves, type Mapping, map, register } from "./kernel.ts";

export const BUFFER_BYTES = 16 * 1024;
/**
 * Maximum bytes that one receive delivers. The kernel ends a multishot receive once it has brought
 * BUFFER_BYTES, but by then its last buffer may be full.
 */
export const RECEIVE_BYTES_MAX: number = 2 * BUFFER_BYTES - 1;
/** The id that the kernel knows them by. */
export const BUFFER_GROUP = 0;
/** A power of two. */
const BUFFERS_MAX = 512;
/** Buffers offered at the start, and buffers added whenever more are needed. */
const BUFFERS_STEP = 64;
/** Distance between buffers, so that their first bytes don't compete for the same cache lines. */
const STRIDE_BYTES = BUFFER_BYTES + 192;
const ENTRY_BYTES = 16;
const REGISTER_PBUF_RING = 22;

export class ReceiveBuffers {
  /** A view of each buffer that was offered. */
  readonly views: Uint8Array[] = [];
  readonly #memory: Mapping;
  readonly #tails: Uint16Array;
  readonly #entries: Int32Array;
  #tail = 0;
  /** The two halves of each buffer's address. */
  readonly #addresses = new Int32Array(2 * BUFFERS_MAX);

  /** Registers them with a ring. Throws KernelError if the kernel refuses. */
  constructor(descriptor: number) {
    this.#memory = map(BUFFERS_MAX * STRIDE_BYTES);
    const ring = map(BUFFERS_MAX * ENTRY_BYTES);
    this.#tails = new Uint16Array(ring.buffer);
    this.#entries = new Int32Array(ring.buffer);
    const registration = map(40);
    const fields = new BigUint64Array(registration.buffer, 0, 5);
    fields[0] = ring.pointer;
    fields[1] = BigInt(BUFFERS_MAX) | (BigInt(BUFFER_GROUP) << 32n);
    register(descriptor, REGISTER_PBUF_RING, registration, 1);
    this.offerMore();
    this.publish();
  }

  /** Offers further buffers, if there are any. */
  offerMore(): void {
    const end = Math.min(this.views.length + BUFFERS_STEP, BUFFERS_MAX);
    for (let buffer = this.views.length; buffer < end; buffer++) {
      const at = buffer * STRIDE_BYTES;
      this.views.push(new Uint8Array(this.#memory.buffer, at, BUFFER_BYTES));
      const address = halves(this.#memory.pointer + BigInt(at));
      this.#addresses.set([address.low, address.high], 2 * buffer);
      this.offer(buffer);
    }
  }

  /** Gives a buffer back to the kernel, with the next `publish`. */
  offer(buffer: number): void {
    assert(buffer < this.views.length, "a returned buffer was offered");
    const entry = (this.#tail++ & (BUFFERS_MAX - 1)) * (ENTRY_BYTES / 4);
    const words = this.#entries;
    words[entry] = this.#addresses[2 * buffer]!;
    words[entry + 1] = this.#addresses[2 * buffer + 1]!;
    words[entry + 2] = BUFFER_BYTES;
    // The upper half of the first entry's last word is the ring's tail.
    this.#tails[(entry << 1) + 6] = buffer;
  }

  publish(): void {
    Atomics.store(this.#tails, 7, this.#tail & 0xffff);
  }
}
