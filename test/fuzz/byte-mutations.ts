// Byte mutations: broken, mistaken or hostile input.

import { COMMANDS, FIELDS } from "../../src/protocol/commands.ts";
import { GOOD_ARGUMENTS, lineOf } from "../support/conversations/command-lines.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import { CUT } from "./piece.ts";

const INTERESTING = ["\0", "\r", "\n", "\r\n", " ", "\t", "\x7f", "\x80", "\xff", "-", "0", "9"] as const;

const NUMBERS = [
  ...[
    "0",
    "1",
    "2",
    "65535",
    "65536",
    "70000",
    "70001",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
  ],
  ...["9223372036854775808", "18446744073709551615", "18446744073709551616", "-1", "+1"],
] as const;

/**
 * The words of all commands, good lines of those with arguments, and what else means something in
 * the protocol.
 */
const DICTIONARY: readonly string[] = [
  ...COMMANDS.map(({ word }) => word),
  ...COMMANDS.filter(({ args }) => FIELDS[args].length > 0).map(
    (command) => `${lineOf(command, GOOD_ARGUMENTS)}\r\n`,
  ),
  ...NUMBERS,
  ...["put 0 0 1 ", "default", "\r\n", "junk", "INSERTED 1\r\n"],
];

/** Where a line or a window of the line reader ends, more or less. */
const LENGTHS = [1, 2, 16, 199, 200, 201, 222, 223, 224, 225, 226, 448, 449, 4096] as const;

export function randomBytes(random: SeededRandom, length: number): string {
  return Array.from({ length }, () => String.fromCharCode(random.between(0, 255))).join("");
}

/** Words and numbers of the protocol in no order. */
export function wordSoup(random: SeededRandom, words: number): string {
  return Array.from({ length: words }, () =>
    random.pick([...DICTIONARY, ...INTERESTING, " ", " ", " ", "\r\n", "\r\n", "\r\n", "\r\n"]),
  ).join("");
}

/** `text` with one thing changed. */
export function mutated(random: SeededRandom, text: string): string {
  const from = random.between(0, text.length);
  const to = Math.min(text.length, from + random.pick(LENGTHS));
  const [before, part, after] = [text.slice(0, from), text.slice(from, to), text.slice(to)];
  switch (random.between(0, 8)) {
    case 0: {
      const code = text.charCodeAt(from);
      // Marks are no bytes: they stay.
      if (from === text.length || code > 0xff) return text;
      return before + String.fromCharCode(code ^ (1 << random.between(0, 7))) + text.slice(from + 1);
    }
    case 1:
      return before + after;
    case 2:
      return before + part + part + after;
    case 3:
      return before + random.pick(INTERESTING) + text.slice(from);
    case 4:
      return before + random.pick(DICTIONARY)! + text.slice(from);
    case 5:
      return before + random.pick(INTERESTING) + text.slice(from + 1);
    case 6:
      return before + random.pick(INTERESTING).repeat(random.pick(LENGTHS)) + text.slice(from);
    case 7:
      return after + part + before;
    default:
      return before;
  }
}

/** `text` with `count` cuts. */
export function withCuts(random: SeededRandom, text: string, count: number): string {
  const positions = Array.from({ length: count }, () => random.between(1, Math.max(1, text.length - 1)));
  return cutAt(text, positions);
}

export function cutAt(text: string, positions: readonly number[]): string {
  const sorted = [...new Set(positions)].sort((left, right) => left - right);
  let from = 0;
  const parts = sorted.map((to) => {
    const part = text.slice(from, to);
    from = to;
    return part;
  });
  return [...parts, text.slice(from)].join(CUT);
}
