// Case branches shared by the scripts for bash and zsh: candidates after a command and after an
// option.

import { type Known, type KnownOption, quoted, type Wanted } from "./completion-tree.ts";

/** Returns a branch for each command: its subcommands, its options, and whether it takes tubes. */
export function commandCases(known: readonly Known[]): string {
  return known
    .map(({ path, words, options, takesTube }) => {
      const all = [...words.map(({ word }) => word), ...options.map(({ flag }) => flag)].join(" ");
      return `    ${quoted(path)}) words=${quoted(all)}${takesTube ? " tubes=1" : ""} ;;`;
    })
    .join("\n");
}

/**
 * Returns a branch for each option with a value, such as "tubes --sort": its possible values, or
 * none.
 */
export function optionCases(known: readonly Known[]): string {
  return known
    .flatMap(({ path, options }) =>
      options
        .filter(({ wants }) => wants !== "nothing")
        .map(
          ({ flag, wants }: KnownOption) => `    ${quoted(`${path} ${flag}`.trim())}) ${assigned(wants)} ;;`,
        ),
    )
    .join("\n");
}

function assigned(wants: Wanted): string {
  if (wants === "tube") return "tubes=1";
  return typeof wants === "string" ? ":" : `words=${quoted(wants.join(" "))}`;
}
