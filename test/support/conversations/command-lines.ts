// The table of commands as the tests use it: a sample line of each command, and the command of a
// line.
//
// All generators of commands use it, so that a new row of src/protocol/commands.ts is covered too.

import { fail } from "node:assert/strict";
import { CommandParser, Syntax } from "../../../src/protocol/command-parser.ts";
import {
  COMMANDS,
  type Command,
  commandName,
  FIELDS,
  type Field,
  STRICT_COMMANDS,
} from "../../../src/protocol/commands.ts";
import { U32_MAX } from "../../../src/protocol/limits.ts";
import { OptionKind, type OptionRow } from "../../../src/protocol/option-rows.ts";

/** Commands that beanstalkd has too. */
export const BEANSTALKD_COMMANDS: readonly Command[] = STRICT_COMMANDS;

const OURS: ReadonlySet<string> = new Set(COMMANDS.filter(({ extension }) => extension).map(commandName));

/** Returns whether beanstalkd does not know the command of this name. */
export const isOurs = (name: string): boolean => OURS.has(name);

/** A text for each argument. */
export type Arguments = Readonly<Record<Field, string>>;

/** Arguments that every command takes. */
export const GOOD_ARGUMENTS: Arguments = {
  id: "1",
  pri: "0",
  delay: "0",
  ttr: "60",
  bytes: "3",
  bound: "1",
  seconds: "0",
  tube: "default",
  token: "rb1_x",
  "tube | *": "default",
  pattern: "set-only",
  to: "default",
  count: "2",
  ids: "1 2",
  name: "worker-1",
  "strict|weighted|weighted-time": "weighted",
  schedule: "nightly",
  batch: "default",
};

/** A value that an option takes. */
function goodValue({ kind, min = 0, words = [] }: OptionRow): string {
  switch (kind) {
    case OptionKind.Word:
    case OptionKind.Words:
      return words.at(-1)!;
    case OptionKind.Number:
      return String(min + 1);
    case OptionKind.Duration:
      return "0.5";
    default:
      return "default";
  }
}

/** A line of `command` without its end. Throws if one of its arguments has no text. */
export function lineOf(command: Command, texts: Partial<Arguments>): string {
  const name = commandName(command);
  const words = FIELDS[command.args].map((field) => texts[field] ?? fail(`${name} has an argument ${field}`));
  const needed = command.needsOption ? command.options!.slice(0, 1) : [];
  const options = needed.map((row) => `${row.name}=${goodValue(row)}`);
  return [name, ...words, ...options].join(" ");
}

/**
 * For each of `commands`, by its name, what `odd` says of it, or else `usual`. Throws where `odd`
 * names no command.
 */
export function eachCommand<Value>(
  commands: readonly Command[],
  usual: Value,
  odd: Readonly<Record<string, Value>>,
): Record<string, Value> {
  const known = [...COMMANDS, ...commands].map(commandName);
  for (const name of Object.keys(odd))
    if (!known.includes(name)) throw new Error(`there is no command ${name}`);
  return Object.fromEntries(commands.map(commandName).map((name) => [name, odd[name] ?? usual]));
}

const parser = new CommandParser(U32_MAX);

/** The name of the command that a line without its end gives, if nothing is wrong with it. */
export function commandIn(line: string): string | undefined {
  const bytes = Buffer.from(line, "latin1");
  if (line.includes("\0") || parser.parse(bytes, 0, bytes.length) !== Syntax.Ok) return undefined;
  const row = COMMANDS.find(({ op }) => op === parser.request.op);
  return row === undefined ? undefined : commandName(row);
}
