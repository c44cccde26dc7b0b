// How often each command and each reply word was seen: a fuzzer that never says "reserve" has proved nothing about it.

import { COMMANDS } from "./expected-reply.ts";

/** What a grammar run of full length must have seen. */
export const CORE_COMMANDS: readonly string[] = [...COMMANDS, "unknown", "nul", "overlong"];
export const CORE_REPLIES: readonly string[] = [
  "INSERTED",
  "RESERVED",
  "FOUND",
  "OK",
  "USING",
  "WATCHING",
  "DELETED",
  "RELEASED",
  "BURIED",
  "KICKED",
  "TOUCHED",
  "PAUSED",
  "NOT_FOUND",
  "NOT_IGNORED",
  "TIMED_OUT",
  "DEADLINE_SOON",
  "BAD_FORMAT",
  "UNKNOWN_COMMAND",
  "EXPECTED_CRLF",
  "JOB_TOO_BIG",
];

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
      ...CORE_REPLIES.filter((word) => !this.#replies.has(word)),
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
