// Copies, compares and converts byte ranges without allocating, and writes numbers into them.

import * as ascii from "./ascii.ts";

// A byte array with a view of the same memory for numbers.

/** `bytes`, and a DataView of the same memory. */
export class Memory {
  readonly bytes: Uint8Array;
  readonly view: DataView;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Returns a zeroed block of `bytes` bytes. */
  static ofSize(bytes: number): Memory {
    return new Memory(new Uint8Array(bytes));
  }
}

// A local constant, because each use of an imported one loads it again.
const { ZERO } = ascii;

/** Up to this many bytes, a plain loop beats the native copy, whose call costs about 50 ns. */
const LOOP_COPY_BYTES_MAX = 32;

/**
 * A plain memmove. `TypedArray.set` copies shared memory word by word at half the speed, and also
 * needs a view.
 */
const nativeCopy = Buffer.prototype.copy;

/**
 * Copies `length` bytes of `source` at `sourceStart` into `target` at `targetStart`. The ranges
 * must not overlap.
 */
export function copyBytes(
  target: Uint8Array,
  targetStart: number,
  source: Uint8Array,
  sourceStart: number,
  length: number,
): void {
  if (length <= LOOP_COPY_BYTES_MAX) {
    for (let i = 0; i < length; i++) target[targetStart + i] = source[sourceStart + i]!;
    return;
  }
  nativeCopy.call(source, target, targetStart, sourceStart, sourceStart + length);
}

/** Works on any Uint8Array, including shared memory; Node's types omit it. */
const nativeLatin1 = (
  Buffer.prototype as Buffer & { latin1Slice(this: Uint8Array, start: number, end: number): string }
).latin1Slice;

/**
 * Returns a byte range as a Latin-1 string; tube names and protocol text are ASCII. Appending
 * character by character would build a rope, which takes 30 bytes per character until something
 * reads it.
 */
export function latin1(source: Uint8Array, start: number, end: number): string {
  return nativeLatin1.call(source, start, end);
}

/** Returns the bytes of an ASCII string. */
export function asciiBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i) & 0xff;
  return bytes;
}

/** Returns whether `bytes[start, end)` begins with `prefix`. */
export function startsWith(bytes: Uint8Array, start: number, end: number, prefix: Uint8Array): boolean {
  if (end - start < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) if (bytes[start + i] !== prefix[i]) return false;
  return true;
}

/**
 * Writes the non-negative safe integer `value` at `at`; returns the position after the last digit.
 */
export function writeDecimal(target: Uint8Array, at: number, value: number): number {
  if (value < 10) {
    target[at] = ZERO + value;
    return at + 1;
  }
  const digits = decimalDigits(value);
  let rest = value;
  for (let i = at + digits - 1; i >= at; i--) {
    const quotient = rest < 0x80000000 ? (rest / 10) | 0 : Math.floor(rest / 10);
    target[i] = ZERO + (rest - quotient * 10);
    rest = quotient;
  }
  return at + digits;
}

export function decimalDigits(value: number): number {
  let digits = 1;
  for (let limit = 10; value >= limit; limit *= 10) digits++;
  return digits;
}

// The hash that decides which shard owns a tube: 32-bit FNV-1a with a final mix for good low bits.

/**
 * Returns the hash of the tube name in `bytes[start, end)`. It depends on the name alone, so any
 * thread can compute it.
 */
export function tubeHash(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** Returns the shard, 0 to `shardCount - 1`, that owns the tube name in `bytes[start, end)`. */
export function shardOfTube(bytes: Uint8Array, start: number, end: number, shardCount: number): number {
  return shardCount === 1 ? 0 : tubeHash(bytes, start, end) % shardCount;
}
