// Generator of valid and nearly valid commands: known words, values at the limits, and every way
// for a line or body to end.
//
// The words come from the table of commands: a new row is generated too, with the arguments that
// its Args ask for.

import { COMMANDS, type Command, commandName, FIELDS, type Field } from "../../src/protocol/commands.ts";
import { OptionKind, type OptionRow } from "../../src/protocol/option-rows.ts";
import { eachCommand } from "../support/conversations/command-lines.ts";
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

const ODD_OPTIONS = [
  "nope=1",
  "nope",
  "=1",
  "Limit=1",
  "a-very-long-name-of-an-option-of-33=1",
  "limit =1",
  "-=",
] as const;
const ODD_VALUES = [
  ...[
    "",
    "0",
    "-1",
    "1.0",
    "1e3",
    "1.2345",
    ".5",
    "ready,",
    ",",
    "Ready",
    "%",
    "%0",
    "%zz",
    "a=b",
    "\x7f",
    "\t",
  ],
  ...["4294967295", "4294967296", "9007199254740991", "9007199254740992", "y".repeat(201), "\0"],
] as const;
/** None of them means a tube that is used. */
const EDGE_PATTERNS = [
  "set-**",
  "*set",
  "-*",
  "set-a!",
  "",
  `${"s".repeat(200)}*`,
  `${"s".repeat(201)}`,
] as const;

/** Bytes that fill up a long line. */
const FILLERS = ["0", " ", "\0", "x"] as const;

/** Weight of each command. */
const USUAL_WEIGHT = 2;
const ODD_WEIGHTS: Readonly<Record<string, number>> = {
  put: 26,
  "reserve-with-timeout": 11,
  release: 8,
  bury: 5,
  kick: 5,
  use: 4,
  watch: 4,
  "pause-tube": 4,
  // A waiting client sends nothing more.
  reserve: 0.7,
  // Nothing comes after it: the fuzzers end some conversations with it.
  quit: 0,
};
/** Besides the commands: lines near a limit, and lines that are none. */
const LONG_WEIGHT = 3;
const ODD_WEIGHT = 5;
/** No command has such a name. */
const LONG = "a long line";
const ODD = "an odd line";

export class CommandGrammar {
  readonly #random: SeededRandom;
  readonly #commands: ReadonlyMap<string, Command>;
  readonly #weights: Readonly<Record<string, number>>;
  /** Puts drawn in this conversation. */
  #puts = 0;
  /** Probability that an argument is at a limit or wrong. */
  readonly #oddness: number;

  constructor(random: SeededRandom, oddness = 0.12, commands: readonly Command[] = COMMANDS) {
    this.#random = random;
    this.#oddness = oddness;
    this.#commands = new Map(commands.map((command) => [commandName(command), command]));
    this.#weights = {
      ...eachCommand(commands, USUAL_WEIGHT, ODD_WEIGHTS),
      [LONG]: LONG_WEIGHT,
      [ODD]: ODD_WEIGHT,
    };
  }

  /** One command with its end, and its body if it has one. Rarely without either. */
  command(): string {
    const name = this.#random.weighted(this.#weights);
    const command = this.#commands.get(name);
    if (command === undefined) return name === LONG ? this.#longLine() : this.#oddLine();
    if (FIELDS[command.args].includes("bytes")) return this.#withBody(command);
    return this.#line(name, ...this.#arguments(command, "0"));
  }

  #odd(): boolean {
    return this.#random.chance(this.#oddness);
  }

  /** Separator of two arguments: a blank, mostly. */
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

  #seconds(): string {
    if (this.#odd()) return this.#number(3);
    return this.#random.chance(0.1) ? this.#random.pick(["7", "-1"]) : "0";
  }

  #ttr(): string {
    return this.#random.pick(["60", "60", "100", "1", "0", this.#number(4)]);
  }

  /** The arguments of `command`, where `bytes` is the size of its body, and some options. */
  #arguments(command: Command, bytes: string): string[] {
    const fields = FIELDS[command.args].map((field) => (field === "bytes" ? bytes : this.#argument(field)));
    return command.options === undefined ? fields : [...fields, ...this.#options(command.options)];
  }

  /** Some of the options that a command has, mostly once each; now and then one that it has not. */
  #options(rows: readonly OptionRow[]): string[] {
    const random = this.#random;
    const drawn = rows.filter(() => random.chance(0.3)).map((row) => `${row.name}=${this.#optionValue(row)}`);
    if (random.chance(this.#oddness / 2)) drawn.push(random.pick(ODD_OPTIONS));
    return drawn.length > 0 && random.chance(this.#oddness / 2) ? [...drawn, random.pick(drawn)!] : drawn;
  }

  #optionValue({ name, kind, min = 0, max = 10, words = [] }: OptionRow): string {
    const random = this.#random;
    if (this.#odd()) return random.pick(ODD_VALUES);
    switch (kind) {
      case OptionKind.Number:
        if (name === "after") return this.#id();
        if (name === "ttr") return this.#ttr();
        return random.chance(0.1) ? `${max}` : `${random.between(min, Math.min(max, min + 5))}`;
      case OptionKind.Duration:
        // Remembered or expiring jobs would make a conversation answer otherwise when it is played
        // again.
        if (name === "unique-for") return "0";
        if (name === "ttl") return random.pick(["0", "100"]);
        // Nothing that is over while the same is asked again, cut otherwise.
        return random.pick(["0", "0", "0.0", "100", "100.25", "4294967295.999"]);
      case OptionKind.Text:
        return random.pick(["a", "%0d%0A", "%00", "b", "\xff", "%25", "x".repeat(200)]);
      case OptionKind.Word:
        return random.pick(words)!;
      case OptionKind.Words:
        return Array.from({ length: random.between(1, 3) }, () => random.pick(words)!).join(",");
      case OptionKind.Key:
        return random.pick(["a", "user:42", "a%zz", "\xff", "x".repeat(200)]);
      case OptionKind.Pair:
        return random.pick(["a:b", "traceparent:00-1-2-01", "x_.-:", "a::b:", `n:${"x".repeat(198)}`]);
      case OptionKind.Tube:
        return this.#tube();
      case OptionKind.Rate:
        // Too many to wait for: the same question comes again at another moment.
        return random.pick(["4294967295/1", "1000000/1"]);
    }
  }

  #argument(field: Exclude<Field, "bytes">): string {
    switch (field) {
      case "id":
        return this.#id();
      case "pri":
        return this.#pri();
      case "delay":
        return this.#delay();
      case "ttr":
        return this.#ttr();
      case "bound":
        return this.#number(4);
      case "strict|weighted|weighted-time":
        return this.#random.pick(["strict", "weighted", "weighted-time"]);
      case "schedule":
        return this.#random.pick([
          "nightly",
          "a@b:c",
          "\xff",
          "x".repeat(128),
          "x".repeat(129),
          "x".repeat(201),
        ]);
      case "name":
        return this.#random.pick(["worker-1", "web:4711/mail", "\xff", "x".repeat(63), "x".repeat(64)]);
      case "seconds":
        return this.#seconds();
      case "tube":
        return this.#tube();
      case "batch":
        return this.#random.pick(["batch-1", "batch-2", "b"]);
      case "token":
        return "rb1_x";
      case "to":
      case "tube | *":
        return this.#random.chance(0.2) ? "*" : this.#tube();
      case "pattern":
        // Settings outlive the conversation: none for tubes that other conversations use.
        return this.#odd()
          ? this.#random.pick(EDGE_PATTERNS)
          : this.#random.pick(["set-a", "set-b*", "set-*"]);
      case "count":
        return this.#odd()
          ? this.#number(3)
          : this.#random.pick(["1", "2", "3", "1000", "1001", "4294967295"]);
      case "ids":
        return Array.from({ length: this.#random.pick([1, 1, 2, 3, 7]) }, () => this.#id()).join(" ");
    }
  }

  #withBody(command: Command): string {
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
    return this.#line(commandName(command), ...this.#arguments(command, declared)) + body + this.#bodyEnd();
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

  /** One of those that are drawn at all. */
  #anyCommand(): Command {
    const names = [...this.#commands.keys()].filter((name) => this.#weights[name]! > 0);
    return this.#commands.get(this.#random.pick(names)!)!;
  }

  /** A line whose length is near a limit: of 224 bytes, or of a multiple. */
  #longLine(): string {
    const random = this.#random;
    const target = random.pick([224, 224, 224, 448, 672, 1000]) + random.between(-3, 4);
    const command = this.#anyCommand();
    const last = this.#arguments(command, "1").slice(0, -1);
    const start = [commandName(command), ...last, ""].join(" ");
    const end = FIELDS[command.args].length > 0 ? "1" : "";
    const length = Math.max(0, target - 2 - start.length - end.length);
    return `${start}${random.pick(FILLERS).repeat(length)}${end}\r\n`;
  }

  /** No command, one without its arguments, or the beginning of one. */
  #oddLine(): string {
    const random = this.#random;
    const name = commandName(this.#anyCommand());
    return this.#line(
      random.pick(["", "\0", "\xff\xfe", "\t", name, name, name.slice(0, random.between(1, name.length))]),
      ...(random.chance(0.3) ? [this.#number(3)] : []),
    );
  }
}
