// A lookup table from the first bytes of a line to its command.

import { asciiBytes, startsWith } from "../base/bytes.ts";
import type { Args, Command, Op } from "./commands.ts";
import { REASON_OPTIONS } from "./job-options.ts";
import type { OptionRow } from "./option-rows.ts";

export interface CommandWord {
  readonly bytes: Uint8Array;
  readonly op: Op;
  readonly args: Args;
  readonly isExtension: boolean;
  readonly options: readonly OptionRow[] | undefined;
  readonly needsOption: boolean;
  /** Whether a reason may make the line longer than beanstalkd's. */
  readonly takesReason: boolean;
}

/**
 * For each first byte, the words that begin with it, in the order in which the parser tries them.
 */
export type CommandWords = readonly (readonly CommandWord[] | undefined)[];

/**
 * Returns the words of a command table in its order, except that a word comes after any longer word
 * that begins with it.
 */
export function commandWords(commands: readonly Command[]): CommandWords {
  const byFirstByte: (CommandWord[] | undefined)[] = new Array(256).fill(undefined);
  for (const { word, op, args, extension, options, needsOption } of commands) {
    const bytes = asciiBytes(word);
    const words = (byFirstByte[bytes[0]!] ??= []);
    const shorter = words.findIndex((each) => startsWith(bytes, 0, bytes.length, each.bytes));
    words.splice(shorter < 0 ? words.length : shorter, 0, {
      bytes,
      op,
      args,
      isExtension: extension === true,
      options,
      needsOption: needsOption === true,
      takesReason: options === REASON_OPTIONS,
    });
  }
  return byFirstByte;
}
