// Meanings of commands with a single argument: a name, an order, or a tube.

import { type LineMeaning, meaning } from "./line-meaning.ts";

const NAME = /^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$/;

/** Commands with a single argument, its pattern, and what they answer. */
export const BY_PATTERN: Readonly<Record<string, readonly [pattern: RegExp, replies: readonly string[]]>> = {
  name: [/^ *[\x21-\x7e\x80-\xff]{1,63}$/, ["NAMED"]],
  "reserve-order": [/^ *(?:strict|weighted|weighted-time)$/, ["SET"]],
};

/** A command by tube. A weight (18.22) is the only thing that may follow the tube of a watch. */
export function meaningByName(command: string, rest: string, replies: readonly string[]): LineMeaning {
  if (NAME.test(rest)) return meaning(command, replies);
  const [, tube = "", weight = "0"] = /^([^ ]+) +weight=(\d{1,200})$/.exec(rest) ?? [];
  const isGood = command === "watch" && NAME.test(tube) && BigInt(weight) >= 1n && BigInt(weight) <= 1000n;
  return isGood ? meaning(command, replies, { differsFrom112: true }) : meaning(command, ["BAD_FORMAT"]);
}
