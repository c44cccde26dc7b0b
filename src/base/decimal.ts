// Writes numbers as decimal digits into byte arrays.

import * as ascii from "./ascii.ts";

// A local constant, because each use of an imported one loads it again.
const { ZERO } = ascii;

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
