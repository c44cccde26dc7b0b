// Number parsers for the command lines of the tests' programs, for commander.

import { InvalidArgumentError } from "commander";

/**
 * Throws InvalidArgumentError, with the bounds, for anything but decimal digits from `least` to
 * `most`.
 */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`A whole number from ${least} to ${most} is expected.`);
    return value;
  };
}

/** Throws InvalidArgumentError, with the bound, for anything but a number above 0, up to `most`. */
export function positiveNumber(most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!(value > 0 && value <= most))
      throw new InvalidArgumentError(`A number above 0, up to ${most}, is expected.`);
    return value;
  };
}

/** Maximum of the seeds that these programs print and accept. */
export const seedNumber: (text: string) => number = wholeNumber(0, 9_999_999_999);
