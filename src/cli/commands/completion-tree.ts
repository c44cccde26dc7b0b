// Tree of commands, as the completion scripts need it.

import type { Command, Option } from "commander";

/** Value of an option: none, one of these words, a tube, or something that can't be completed. */
export type Wanted = "nothing" | "tube" | "anything" | readonly string[];

export interface KnownOption {
  /** "--pri", or "-n" if there is no long form. */
  readonly flag: string;
  readonly description: string;
  readonly wants: Wanted;
}

/** A command, as a shell sees it. */
export interface Known {
  /** "config check"; "" for the program itself. */
  readonly path: string;
  /** Words that may follow: subcommands, or values of the argument. */
  readonly words: readonly { readonly word: string; readonly description: string }[];
  readonly options: readonly KnownOption[];
  readonly takesTube: boolean;
  readonly takesFile: boolean;
}

export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function knownCommands(command: Command, path = ""): Known[] {
  const children = command.commands;
  const values = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const takes = (names: RegExp): boolean =>
    command.registeredArguments.some((argument) => names.test(argument.name()));
  const own: Known = {
    path,
    words: [
      ...children.map((child) => ({ word: child.name(), description: child.description() })),
      ...values.map((word) => ({ word, description: "" })),
    ],
    options: command.options
      .filter(({ hidden }) => !hidden)
      .map((option) => ({
        flag: option.long ?? option.short ?? "",
        description: option.description,
        wants: wantedBy(option),
      })),
    takesTube: path === "tube" || takes(/^(?:tubes?|to|what|job|glob)$/),
    takesFile: takes(/^(?:file|dir|out)$/),
  };
  return [
    own,
    ...children.flatMap((child) =>
      knownCommands(child, path === "" ? child.name() : `${path} ${child.name()}`),
    ),
  ];
}

function wantedBy({ required, optional, argChoices, long }: Option): Wanted {
  if (!required && !optional) return "nothing";
  return argChoices ?? (long === "--tube" ? "tube" : "anything");
}
