// The reader of a whole number on a command line of the tests' programs, for commander.

import { InvalidArgumentError } from "commander";

/** Throws InvalidArgumentError, with the bounds, for anything but decimal digits from `least` to `most`. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`A whole number from ${least} to ${most} is expected.`);
    return value;
  };
}
