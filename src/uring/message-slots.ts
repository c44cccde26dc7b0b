// Messages for the kernel at fixed addresses: short ones that are copied (SendSlots), and
// descriptions (struct msghdr) of those whose bytes are in several places (MessageSlots).

import { assert } from "../base/assert.ts";
import { copyBytes } from "../base/bytes.ts";
import { type Address, addressBehind, halves, map } from "./kernel.ts";

/** Replies up to this size are copied to a slot, so that their buffer can be reused at once. */
export const SEND_SLOT_BYTES = 4096;
const SEND_SLOTS = 512;

export class SendSlots {
  readonly #memory = map(SEND_SLOTS * SEND_SLOT_BYTES);
  readonly #bytes = new Uint8Array(this.#memory.buffer);
  readonly #free = Array.from({ length: SEND_SLOTS }, (_, slot) => slot);
  /** The address of each slot. */
  readonly addresses: readonly Address[] = this.#free.map((slot) => this.address(slot, 0));

  /** Copies `bytes[0, length)` to a slot. Returns its number, or -1 if none is free. */
  put(bytes: Uint8Array, length: number): number {
    const slot = this.#free.pop();
    if (slot === undefined) return -1;
    copyBytes(this.#bytes, slot * SEND_SLOT_BYTES, bytes, 0, length);
    return slot;
  }

  /** Returns the address of the slot's bytes from `at` on. */
  address(slot: number, at: number): Address {
    return halves(this.#memory.pointer + BigInt(slot * SEND_SLOT_BYTES + at));
  }

  give(slot: number): void {
    this.#free.push(slot);
  }
}

/** A msghdr, PARTS_MAX iovecs and TRAILER_BYTES, padded to a power of two. */
const SLOT_BYTES = 256;
const HEADER_BYTES = 56;
const PART_BYTES = 16;
const PARTS_MAX = 11;
const TRAILER_AT = 240;
/** Bytes in the slot itself, for the CR LF after a body. */
const TRAILER_BYTES = 2;
/** Offsets in a msghdr, in int32 words: the address of its iovecs, and their number. */
const PARTS = 4;
const PART_COUNT = 6;

/** A fixed number of messages. Each belongs to the kernel from its submission to its completion. */
export class MessageSlots {
  readonly #buffer: ArrayBuffer;
  readonly #words: Int32Array;
  /** The address of each slot. */
  readonly addresses: readonly Address[];
  readonly #free: number[];

  constructor(slots: number) {
    const { buffer, pointer } = map(slots * SLOT_BYTES);
    const start = halves(pointer);
    this.#buffer = buffer;
    this.#words = new Int32Array(buffer);
    this.#free = Array.from({ length: slots }, (_, slot) => slot);
    this.addresses = this.#free.map((slot) => addressBehind(start, slot * SLOT_BYTES));
    for (let slot = 0; slot < slots; slot++) {
      const at = (slot * SLOT_BYTES) >> 2;
      const parts = addressBehind(this.addresses[slot]!, HEADER_BYTES);
      this.#words[at + PARTS] = parts.low;
      this.#words[at + PARTS + 1] = parts.high;
    }
  }

  /** Whether all are in use. */
  get areTaken(): boolean {
    return this.#free.length === 0;
  }

  /** Returns a message without parts. */
  take(): number {
    const slot = this.#free.pop();
    assert(slot !== undefined, "a message is taken only while one is free");
    this.#words[((slot * SLOT_BYTES) >> 2) + PART_COUNT] = 0;
    return slot;
  }

  give(slot: number): void {
    this.#free.push(slot);
  }

  hasRoom(slot: number, parts: number): boolean {
    return this.#words[((slot * SLOT_BYTES) >> 2) + PART_COUNT]! + parts <= PARTS_MAX;
  }

  /**
   * Adds `length` bytes `offset` behind an address. They must not change until the message is done.
   */
  add(slot: number, { low, high }: Address, offset: number, length: number): void {
    const words = this.#words;
    const at = (slot * SLOT_BYTES) >> 2;
    const count = words[at + PART_COUNT]!;
    const part = at + ((HEADER_BYTES + count * PART_BYTES) >> 2);
    const sum = (low >>> 0) + offset;
    words[part] = sum;
    words[part + 1] = sum < 2 ** 32 ? high : high + 1;
    words[part + 2] = length;
    words[part + 3] = 0;
    words[at + PART_COUNT] = count + 1;
  }

  /** Adds the slot's own TRAILER_BYTES. */
  addTrailer(slot: number): void {
    this.add(slot, this.addresses[slot]!, TRAILER_AT, TRAILER_BYTES);
  }

  /** Returns the bytes received into the trailer, valid until the slot is given back. */
  trailer(slot: number): Uint8Array {
    return new Uint8Array(this.#buffer, slot * SLOT_BYTES + TRAILER_AT, TRAILER_BYTES);
  }

  /** Returns the rest of the part that contains byte `offset` of the message. */
  partAt(slot: number, offset: number): { low: number; high: number; length: number } {
    const words = this.#words;
    let at = (slot * SLOT_BYTES + HEADER_BYTES) >> 2;
    let before = 0;
    while (before + words[at + 2]! <= offset) {
      before += words[at + 2]!;
      at += PART_BYTES >> 2;
    }
    const skipped = offset - before;
    const { low, high } = addressBehind({ low: words[at]!, high: words[at + 1]! }, skipped);
    return { low, high, length: words[at + 2]! - skipped };
  }
}
