// What the scripts for bash and zsh ask themselves in the same words: what may come behind a command, and behind an option.

import { type Known, type KnownOption, quoted, type Wanted } from "./completion-tree.ts";

/** Behind a command: what is below it, its options, tubes. */
export function commandCases(known: readonly Known[]): string {
  return known
    .map(({ path, words, options, takesTube }) => {
      const all = [...words.map(({ word }) => word), ...options.map(({ flag }) => flag)].join(" ");
      return `    ${quoted(path)}) words=${quoted(all)}${takesTube ? " tubes=1" : ""} ;;`;
    })
    .join("\n");
}

/** Behind an option that takes something, "tubes --sort": what that may be, or nothing. */
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
