// What a job may have besides its old fields, as a list of tag, length and value (TLV): how the log has it, and
// how what never changes of it is kept.
//
//   0  u8  tag; 0 ends the list, and pads it
//   1  u8  length of the value
//   2  the value, little endian
//
// Times are wall-clock ms. Options of a put (options.ts) become attributes in its shard, which knows when.

import type { Memory } from "../base/memory.ts";

export const Attribute = {
  /** 1 to 200 bytes. */
  UniqueKey: 1,
  /** No value: the key ends with the first reservation instead of with the job. */
  UntilReserve: 2,
  /** f64, when the key may be put again at the earliest. */
  UniqueUntil: 3,
  /** 1 to 200 bytes. */
  Group: 5,
  /** u16, 1 to 1000. */
  Weight: 6,
  // From here on they may change in a job's life: every UPDATE has all of them.
  /** f64, when the job expires. */
  ExpiresAt: 16,
  /** u32, reservations that do not count as attempts. */
  AttemptsBase: 18,
  /** The tube that it died in. */
  Origin: 19,
  /** u8, a DeathReason. */
  Reason: 20,
  /** No value: the job is in another tube than its PUT says, so that each UPDATE has to name it. */
  Moved: 21,
  /** No value: it is dead, and on its way to the dead-letter tube of its tube. */
  Leaving: 22,
  /** u8, a KeyState: what has become of the unique key of a job that was put with one. Without it an older server wrote the record. */
  Key: 23,
} as const;
export type Attribute = (typeof Attribute)[keyof typeof Attribute];

/** What has become of the unique key that a job was put with. */
export const KeyState = {
  /** The job doesn't have it any more: it has died or moved, and another job may have it. */
  Lost: 0,
  /** The job holds it, and it ends with the job. */
  Held: 1,
  /** The job holds it, and it is remembered until UniqueUntil. */
  HeldFor: 2,
  /** The job was given out, which has ended it; it is remembered until UniqueUntil. */
  Remembered: 3,
} as const;
export type KeyState = (typeof KeyState)[keyof typeof KeyState];

/** Why a job died. */
export const DeathReason = { None: 0, Attempts: 1, Expired: 2 } as const;
export type DeathReason = (typeof DeathReason)[keyof typeof DeathReason];

/** Attributes from this tag on are in each UPDATE; those before are in the PUT alone. */
export const FIRST_MUTABLE_ATTRIBUTE: number = Attribute.ExpiresAt;
/** All attributes of a job together; a record says it in units of four bytes. */
export const ATTRIBUTE_BYTES_MAX = 1020;
/** A key or the name of a group. */
export const KEY_BYTES_MAX = 200;

/** Where the value of an attribute begins in `bytes[start, end)`, or -1. Its length stands before it. */
export function findAttribute(bytes: Uint8Array, start: number, end: number, tag: number): number {
  let at = start;
  while (at + 2 <= end) {
    const found = bytes[at]!;
    const next = at + 2 + bytes[at + 1]!;
    if (found === 0 || next > end) return -1;
    if (found === tag) return at + 2;
    at = next;
  }
  return -1;
}

/** How many attributes `bytes[start, end)` has. */
export function countAttributes(bytes: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let at = start; at + 2 <= end && bytes[at] !== 0; at += 2 + bytes[at + 1]!) count++;
  return count;
}

/** Whether `bytes[start, end)` is a list that ends where it says. */
export function attributesAreWhole(bytes: Uint8Array, start: number, end: number): boolean {
  let at = start;
  while (at < end && bytes[at] !== 0) at += 2 + (bytes[at + 1] ?? 0);
  if (at > end) return false;
  for (; at < end; at++) if (bytes[at] !== 0) return false;
  return true;
}

/** Builds a list; used again for the next one after `clear`. */
export class AttributeWriter {
  readonly #memory: Memory;
  length = 0;

  /** `memory` has room for ATTRIBUTE_BYTES_MAX. */
  constructor(memory: Memory) {
    this.#memory = memory;
  }

  get bytes(): Uint8Array {
    return this.#memory.bytes;
  }

  clear(): void {
    this.length = 0;
  }

  flag(tag: Attribute): void {
    this.#head(tag, 0);
  }

  uint8(tag: Attribute, value: number): void {
    this.#memory.bytes[this.#head(tag, 1)] = value;
  }

  uint16(tag: Attribute, value: number): void {
    this.#memory.view.setUint16(this.#head(tag, 2), value, true);
  }

  uint32(tag: Attribute, value: number): void {
    this.#memory.view.setUint32(this.#head(tag, 4), value, true);
  }

  float64(tag: Attribute, value: number): void {
    this.#memory.view.setFloat64(this.#head(tag, 8), value, true);
  }

  /** At most 255 bytes. */
  text(tag: Attribute, source: Uint8Array, start: number, end: number): void {
    const at = this.#head(tag, end - start);
    for (let i = start; i < end; i++) this.#memory.bytes[at + i - start] = source[i]!;
  }

  /** Pads the list with zeros to a multiple of four bytes, as a record wants it; returns its length. */
  pad(): number {
    while (this.length % 4 !== 0) this.#memory.bytes[this.length++] = 0;
    return this.length;
  }

  #head(tag: Attribute, length: number): number {
    const { bytes } = this.#memory;
    bytes[this.length] = tag;
    bytes[this.length + 1] = length;
    this.length += 2 + length;
    return this.length - length;
  }
}
