// Copies, compares and converts byte ranges without allocating, and writes numbers into them.

import * as ascii from "./ascii.ts";

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

/** Returns the number of decimal digits of `value`. */
export function decimalDigits(value: number): number {
  let digits = 1;
  for (let limit = 10; value >= limit; limit *= 10) digits++;
  return digits;
}
