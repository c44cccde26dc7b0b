// Reads the decimal arguments of a command line, with the exact limits of the C server's two
// integer widths.

import * as ascii from "../base/ascii.ts";
import { latin1 } from "../base/bytes.ts";
import { TIMEOUT_SECONDS_MAX, U32_MAX } from "./limits.ts";
import type { Span } from "./request.ts";

// Local constants: each use of an imported one loads it again, which costs 2 to 4 ns a line.
const { CR, DOT, HYPHEN, NINE, PLUS, SPACE, TAB, ZERO } = ascii;
/** Maximum number of decimals of a duration: milliseconds. */
const DECIMALS_MAX = 3;
const U64_MAX_DIGITS = "18446744073709551615";

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE;

/** Returns whether the digits in `bytes[start, end)`, which don't start with 0, exceed 64 bits. */
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
 * Reads one argument after another; each parser has its own reader. Each `read…` starts at `at` and
 * returns whether the argument is well formed. It leaves the value in `value` and the position
 * after it in `at`.
 */
export class NumberReader {
  /** The latest number. An id above 2^53 becomes 0, since no job can have either. */
  value = 0;
  /** The position after the latest number. */
  at = 0;
  #isZero = false;

  /** Reads spaces, then digits up to 4294967295. */
  readU32(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === SPACE) at++;
    const first = at;
    let value = 0;
    for (; at < end; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      if (value > U32_MAX) return false;
    }
    if (at === first) return false;
    this.at = at;
    this.value = value;
    return true;
  }

  /** Reads digits up to `max`, which is at most 2^53 - 1. */
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

  /** Reads spaces, then seconds up to 4294967295 with up to three decimals. The value is in ms. */
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

  /** Reads a duration, or -1, which means forever and yields `Infinity`. */
  readWait(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === SPACE) at++;
    if (bytes[at] !== HYPHEN || at + 1 >= end || bytes[at + 1] !== ZERO + 1)
      return this.readDuration(bytes, end);
    this.at = at + 2;
    this.value = Number.POSITIVE_INFINITY;
    return true;
  }

  /** Reads spaces, then digits up to 18446744073709551615. */
  readU64(bytes: Uint8Array, end: number): boolean {
    let at = this.at;
    while (at < end && bytes[at] === SPACE) at++;
    this.at = at;
    return at < end && isDigit(bytes[at]) && this.#readMagnitude(bytes, end);
  }

  /**
   * Reads the timeout of reserve-with-timeout in seconds; -1 means forever and yields `Infinity`.
   * Ignores trailing text.
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
   * Reads the bound of kick: any blanks, an optional sign, digits. Ignores trailing text. A number
   * beyond 64 bits is malformed. A number beyond 32 bits, or a negative one, means all
   * (protocol/README.md 14 row 3).
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

// Iterates over the ids of a delete-batch.

/** Ids that the parser has validated, in bytes that stay valid during the iteration. */
export class IdList {
  /** The current id; 0 for an id that no job can have. */
  id = 0;
  /** Position of the id as the client wrote it. */
  start = 0;
  end: number;
  readonly #bytes: Uint8Array;
  readonly #last: number;
  readonly #number = new NumberReader();

  constructor({ bytes, start, end }: Span) {
    this.#bytes = bytes;
    this.end = start;
    this.#last = end;
  }

  /** Advances to the next id; returns false at the end. */
  next(): boolean {
    const number = this.#number;
    let at = this.end;
    while (at < this.#last && this.#bytes[at] === SPACE) at++;
    this.start = at;
    number.at = at;
    if (!number.readU64(this.#bytes, this.#last)) return false;
    this.id = number.value;
    this.end = number.at;
    return true;
  }

  /** The id as the client wrote it. */
  get text(): string {
    return latin1(this.#bytes, this.start, this.end);
  }
}
