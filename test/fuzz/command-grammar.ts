// Draws commands that are right or nearly right: known words, values at the limits, every way a line or body can end.

import type { SeededRandom } from "../support/seeded-random.ts";
import { idMark } from "./piece.ts";

export const JOB_BYTES_MAX = 70_000;
/** Bodies above this go from acceptor to shard in pieces. */
const GATHERED_BODY_BYTES_MAX = 65_536;

const SIMPLE_TUBES = ["default", "a", "b", "tube/5", "0.5"] as const;
const EDGE_TUBES = [
  "x".repeat(199),
  "x".repeat(200),
  "x".repeat(201),
  "A-Za-z0-9+/;.$_()",
  "-",
  "-a",
  "a-",
  "",
  "a b",
  " a",
  "a ",
  "a!",
  "a\tb",
  "\x80",
  "a\0b",
  "a\nb",
  "4294967296",
] as const;
const EDGE_NUMBERS = [
  "2147483647",
  "2147483648",
  "4294967294",
  "4294967295",
  "4294967296",
  "9007199254740993",
  "9223372036854775807",
  "9223372036854775808",
  "18446744073709551615",
  "18446744073709551616",
  "99999999999999999999999999",
  "-1",
  "+1",
  "-0",
  "0x10",
  "1.0",
  "1e3",
  "\t1",
  "1\t",
  "",
  " ",
  "x",
  "1x",
  "\0",
] as const;
const BARE_WORDS = [
  "reserve-with-timeout 0",
  "peek-ready",
  "peek-delayed",
  "peek-buried",
  "stats",
  "list-tubes",
  "list-tube-used",
  "list-tubes-watched",
] as const;
const BODIES = [
  "",
  "a",
  "hello",
  "\r\n",
  "\0\xff\r\n\r",
  "list-tube-used",
  "delete 1\r\nquit",
  "\r",
  "\n",
] as const;

/** Start, what is repeated, and end of a line that is to have some length. */
const LONG_LINES: readonly [LongLine, ...LongLine[]] = [
  ["", "a", ""],
  ["peek ", "0", "1"],
  ["peek ", " ", "1"],
  ["use ", "u", ""],
  ["put 0 0 1 ", "0", "1"],
  ["kick ", "0", "1"],
  ["pause-tube ", " ", "default 0"],
  ["reserve-with-timeout 0", "x", ""],
  ["delete ", "\0", "1"],
];
type LongLine = readonly [start: string, filler: string, end: string];

const WEIGHTS = {
  put: 26,
  "reserve-with-timeout": 10,
  bare: 16,
  "by-id": 14,
  release: 8,
  bury: 5,
  kick: 5,
  "by-name": 12,
  "pause-tube": 4,
  wait: 2,
  long: 3,
  odd: 5,
} as const;

export class CommandGrammar {
  readonly #random: SeededRandom;
  /** Puts drawn in this conversation. */
  #puts = 0;
  /** How often an argument is at a limit or wrong. */
  readonly #oddness: number;

  constructor(random: SeededRandom, oddness = 0.12) {
    this.#random = random;
    this.#oddness = oddness;
  }

  /** One command with its end, and its body if it has one. Rarely without either. */
  command(): string {
    const random = this.#random;
    switch (random.weighted(WEIGHTS)) {
      case "put":
        return this.#put();
      case "reserve-with-timeout":
        return this.#line("reserve-with-timeout", this.#odd() ? this.#number(3) : "0");
      case "bare":
        return this.#line(random.pick(BARE_WORDS));
      case "by-id":
        return this.#line(
          random.pick(["delete", "peek", "touch", "kick-job", "reserve-job", "stats-job"]),
          this.#id(),
        );
      case "release":
        return this.#line("release", this.#id(), this.#pri(), this.#delay());
      case "bury":
        return this.#line("bury", this.#id(), this.#pri());
      case "kick":
        return this.#line("kick", this.#number(4));
      case "by-name":
        return this.#line(
          random.pick(["use", "use", "watch", "watch", "ignore", "stats-tube"]),
          this.#tube(),
        );
      case "pause-tube":
        return this.#line("pause-tube", this.#tube(), random.pick(["0", "0", "1", "100", this.#number(3)]));
      case "wait":
        return this.#line(random.pick(["reserve", "reserve-with-timeout 7", "reserve-with-timeout -1"]));
      case "long":
        return this.#longLine();
      default:
        return this.#oddLine();
    }
  }

  #odd(): boolean {
    return this.#random.chance(this.#oddness);
  }

  /** What stands between two arguments: a blank, mostly. */
  #gap(): string {
    if (!this.#random.chance(this.#oddness / 2)) return " ";
    return this.#random.pick(["  ", "   ", "", "\t", " \t", "\0", " ".repeat(this.#random.between(4, 215))]);
  }

  #line(word: string, ...args: readonly string[]): string {
    let text = word;
    if (this.#random.chance(this.#oddness / 4)) text = this.#mangled(text);
    for (const argument of args) text += this.#gap() + argument;
    if (this.#random.chance(this.#oddness / 4))
      text += this.#random.pick([" ", " x", "x", " 1", "\t", "\0", "\r", "\n"]);
    return text + this.#lineEnd();
  }

  #lineEnd(): string {
    if (!this.#random.chance(this.#oddness / 6)) return "\r\n";
    return this.#random.pick(["\n", "\r", "\r\r\n", "\n\r\n", " \r\n", "\n\r", ""]);
  }

  #mangled(word: string): string {
    const random = this.#random;
    const at = random.between(0, word.length - 1);
    return random.pick([
      word.slice(0, at) + word.slice(at + 1),
      word.slice(0, at) + random.pick(["x", "-", " ", "\0", "E"]) + word.slice(at),
      word.toUpperCase(),
      ` ${word}`,
      word.slice(0, at),
      `${word}x`,
    ]);
  }

  #number(smallMax: number): string {
    const random = this.#random;
    if (this.#odd()) return random.pick(EDGE_NUMBERS);
    const digits = `${random.between(0, smallMax)}`;
    return random.chance(0.1) ? "0".repeat(random.between(1, 30)) + digits : digits;
  }

  #pri(): string {
    return this.#random.chance(0.1) ? this.#random.pick(["1023", "1024", "4294967295"]) : this.#number(3);
  }

  #delay(): string {
    return this.#random.chance(0.7) ? "0" : this.#random.pick(["1", "100", "4294967295", this.#number(2)]);
  }

  #id(): string {
    if (this.#odd()) {
      return this.#random.pick([...EDGE_NUMBERS, "0", `000${idMark(1)}`, `${idMark(1)} `, `${idMark(1)}x`]);
    }
    return idMark(this.#random.between(1, Math.max(1, this.#puts + (this.#random.chance(0.1) ? 1 : 0))));
  }

  #tube(): string {
    return this.#odd() ? this.#random.pick(EDGE_TUBES) : this.#random.pick(SIMPLE_TUBES);
  }

  #put(): string {
    const random = this.#random;
    this.#puts++;
    const body = this.#body();
    const declared = random.chance(this.#oddness / 3)
      ? random.pick([
          `${body.length + 1}`,
          `${Math.max(0, body.length - 1)}`,
          this.#number(9),
          `0${body.length}`,
        ])
      : `${body.length}`;
    const ttr = random.pick(["60", "60", "100", "1", "0", this.#number(4)]);
    const line = this.#line("put", this.#pri(), this.#delay(), ttr, declared);
    return line + body + this.#bodyEnd();
  }

  #body(): string {
    const random = this.#random;
    if (random.chance(0.03)) {
      const edge = random.pick([JOB_BYTES_MAX, JOB_BYTES_MAX, GATHERED_BODY_BYTES_MAX]);
      return "0123456789abcdef".repeat(5000).slice(0, edge + random.between(-2, 2));
    }
    return random.chance(0.7) ? random.pick(BODIES) : "b".repeat(random.between(0, 500));
  }

  #bodyEnd(): string {
    if (!this.#random.chance(this.#oddness / 2)) return "\r\n";
    return this.#random.pick(["", "\r", "\n", "\n\r", "__", "x\r\n", "\r\r\n", "\n\r\n", "\r\n\r\n"]);
  }

  /** A line whose length is near a limit: of 224 bytes, or of a multiple. */
  #longLine(): string {
    const random = this.#random;
    const target = random.pick([224, 224, 224, 448, 672, 1000]) + random.between(-3, 4);
    const [start, filler, end] = random.pick(LONG_LINES);
    return `${start}${filler.repeat(target - 2 - start.length - end.length)}${end}\r\n`;
  }

  #oddLine(): string {
    const random = this.#random;
    return this.#line(
      random.pick([
        "",
        "\0",
        "\xff\xfe",
        "\t",
        "put",
        "peek",
        "list",
        "list-tube",
        "reserve-job",
        "stats-job",
        "pause-tube",
      ]),
      ...(random.chance(0.3) ? [this.#number(3)] : []),
    );
  }
}
