// Coverage of the fuzzers: how often each command and each reply word occurred. A fuzzer that never
// sends "reserve" proves nothing about it.

import { commandName } from "../../src/protocol/commands.ts";
import { BEANSTALKD_COMMANDS } from "../support/conversations/command-lines.ts";

/** Commands that a grammar run of full length must have seen. */
const CORE_COMMANDS: readonly string[] = [
  ...BEANSTALKD_COMMANDS.map(commandName),
  ...["unknown", "nul", "overlong"],
];
const CORE_REPLIES: ReadonlySet<string> = new Set(
  [...BEANSTALKD_COMMANDS.flatMap(({ replies }) => replies), "BAD_FORMAT", "UNKNOWN_COMMAND"]
    .map((reply) => reply.split(" ")[0]!)
    // Replies of a server in trouble, and the placeholder of commands without a reply.
    .filter((word) => !["DRAINING", "OUT_OF_MEMORY", "none:"].includes(word)),
);

export class Coverage {
  readonly #commands = new Map<string, number>();
  readonly #replies = new Map<string, number>();

  command(name: string): void {
    this.#commands.set(name, (this.#commands.get(name) ?? 0) + 1);
  }

  /** A reply's first line. */
  reply(line: string): void {
    const [word = ""] = line.split(" ", 1);
    this.#replies.set(word, (this.#replies.get(word) ?? 0) + 1);
  }

  get commands(): number {
    return sumOf(this.#commands);
  }

  get replies(): number {
    return sumOf(this.#replies);
  }

  /** Core commands and replies that were never seen. */
  missing(): string[] {
    return [
      ...CORE_COMMANDS.filter((name) => !this.#commands.has(name)),
      ...[...CORE_REPLIES].filter((word) => !this.#replies.has(word)),
    ];
  }

  describe(): string {
    return `commands: ${listed(this.#commands)}\nreplies: ${listed(this.#replies)}`;
  }
}

const sumOf = (counts: ReadonlyMap<string, number>): number =>
  counts.values().reduce((sum, count) => sum + count, 0);

function listed(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .sort((left, right) => right[1] - left[1])
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}
