// Reads decimal arguments of a command line, with the exact limits of the C server's two widths.

import * as ascii from "../base/ascii.ts";
import { TIMEOUT_SECONDS_MAX, U32_MAX } from "./limits.ts";

// As constants of this file: an imported one is loaded anew at each use, which costs 2 to 4 ns a line.
const { CR, DOT, HYPHEN, NINE, PLUS, SPACE, TAB, ZERO } = ascii;
/** Digits behind the point of a duration: milliseconds. */
const DECIMALS_MAX = 3;
const U64_MAX_DIGITS = "18446744073709551615";

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE;

/**
 * Whether the digits in `bytes[start, end)`, the first of which is not 0, are a number that 64 bits can't
 * hold.
 */
function exceedsU64(bytes: Uint8Array, start: number, end: number): boolean {
  const digits = U64_MAX_DIGITS.length;
  if (end - start !== digits) return end - start > digits;
  for (let i = 0; i < digits; i++) {
    const difference = bytes[start + i]! - U64_MAX_DIGITS.charCodeAt(i);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

/**
 * One reader per parser, used for one argument after the other: each `read…` starts at `at`, returns whether
 * the argument is well formed, and leaves its value in `value` and the position behind it in `at`.
 */
export class NumberReader {
  /** The number read last. An id above 2^53 becomes 0, which like it never exists. */
  value = 0;
  /** The position behind what was read. */
  at = 0;
  #isZero = false;

  /** Spaces, then digits up to 4294967295. */
  readU32(bytes: Uint8Array, end: number): boolean {
    if (!this.#skipToDigits(bytes, end)) return false;
    let value = 0;
    let at = this.at;
    for (; at < end; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      if (value > U32_MAX) return false;
    }
    this.at = at;
    this.value = value;
    return true;
  }

  /** Digits up to `max`, which is at most 2^53 - 1. */
  readUpTo(bytes: Uint8Array, end: number, max: number): boolean {
    let value = 0;
    let at = this.at;
    for (; at < end && isDigit(bytes[at]); at++) {
      value = value * 10 + (bytes[at]! - ZERO);
      if (value > max) return false;
    }
    if (at === this.at) return false;
    this.at = at;
    this.value = value;
    return true;
  }

  /** Spaces, then seconds up to 4294967295 with up to three decimals. The value is in ms. */
  readDuration(bytes: Uint8Array, end: number): boolean {
    if (!this.readU32(bytes, end)) return false;
    const seconds = this.value;
    let milliseconds = 0;
    if (this.at < end && bytes[this.at] === DOT) {
      const first = ++this.at;
      let unit = 100;
      for (; this.at < end && isDigit(bytes[this.at]); this.at++) {
        milliseconds += (bytes[this.at]! - ZERO) * unit;
        unit /= 10;
      }
      if (this.at === first || this.at - first > DECIMALS_MAX) return false;
    }
    this.value = seconds * 1000 + milliseconds;
    return true;
  }

  /** The same, or -1, which means forever and gives `Infinity`. */
  readWait(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === SPACE) at++;
    if (bytes[at] !== HYPHEN || at + 1 >= end || bytes[at + 1] !== ZERO + 1)
      return this.readDuration(bytes, end);
    this.at = at + 2;
    this.value = Number.POSITIVE_INFINITY;
    return true;
  }

  /** Spaces, then digits up to 18446744073709551615. */
  readU64(bytes: Uint8Array, end: number): boolean {
    if (!this.#skipToDigits(bytes, end)) return false;
    return this.#readMagnitude(bytes, end);
  }

  /**
   * The argument of reserve-with-timeout in seconds; -1 means forever and gives `Infinity`. Later text is
   * ignored.
   */
  readTimeout(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === SPACE) at++;
    if (
      bytes[at] === HYPHEN &&
      at + 1 < end &&
      bytes[at + 1] === ZERO + 1 &&
      !(at + 2 < end && isDigit(bytes[at + 2]))
    ) {
      this.value = Number.POSITIVE_INFINITY;
      return true;
    }
    return this.readU32(bytes, end) && this.value <= TIMEOUT_SECONDS_MAX;
  }

  /**
   * The argument of kick: any blanks, an optional sign, digits; later text is ignored. What C's 64 bits can't
   * hold is malformed; what 32 bits can't hold, and any negative number, means all (protocol/README.md 14 row
   * 3).
   */
  readKickBound(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && (bytes[at] === SPACE || (bytes[at]! >= TAB && bytes[at]! <= CR))) at++;
    const negative = at < end && bytes[at] === HYPHEN;
    if (at < end && (negative || bytes[at] === PLUS)) at++;
    if (at >= end || !isDigit(bytes[at])) return false;
    this.at = at;
    if (!this.#readMagnitude(bytes, end)) return false;
    if (this.#isZero) this.value = 0;
    else if (negative || this.value === 0 || this.value > U32_MAX) this.value = U32_MAX;
    return true;
  }

  #skipToDigits(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === SPACE) at++;
    this.at = at;
    return at < end && isDigit(bytes[at]);
  }

  #readMagnitude(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === ZERO) at++;
    const first = at;
    let value = 0;
    for (; at < end; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
    }
    this.at = at;
    this.#isZero = at === first;
    if (exceedsU64(bytes, first, at)) return false;
    this.value = value <= Number.MAX_SAFE_INTEGER ? value : 0;
    return true;
  }
}
