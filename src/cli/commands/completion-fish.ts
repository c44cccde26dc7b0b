// Completion script for fish.

import { type Known, type KnownOption, quoted, type Wanted } from "./completion-tree.ts";

const TUBES = "(runnerbean tubes --names 2>/dev/null)";

export function fishCompletion(known: readonly Known[]): string {
  const paths = known.map(({ path }) => quoted(path.replaceAll(" ", "/"))).join(" ");
  return `# The command in the line so far, such as "config/check".
function __runnerbean_command
  set -l command ""
  for word in (commandline -opc)[2..]
    set -l next $word
    test -n "$command"; and set next $command/$word
    contains -- $next ${paths}; and set command $next
  end
  echo $command
end
function __runnerbean_is
  test (__runnerbean_command)_ = $argv[1]_
end
complete -c runnerbean -f
${known.flatMap(linesOf).join("\n")}`;
}

function linesOf({ path, words, options, takesTube, takesFile }: Known): string[] {
  const condition = quoted(`__runnerbean_is "${path.replaceAll(" ", "/")}"`);
  const start = `complete -c runnerbean -n ${condition}`;
  return [
    ...words.map(({ word, description }) => `${start} -a ${quoted(word)} -d ${quoted(description)}`),
    ...options.map((option) => `${start} ${optionText(option)}`),
    ...(takesFile ? [`${start} -F`] : []),
    ...(takesTube ? [`${start} -a ${quoted(TUBES)}`] : []),
  ];
}

function optionText({ flag, description, wants }: KnownOption): string {
  const name = flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`;
  return `${name}${valuesText(wants)} -d ${quoted(description)}`;
}

function valuesText(wants: Wanted): string {
  if (wants === "nothing") return "";
  if (wants === "anything") return " -rF";
  return ` -x -a ${quoted(wants === "tube" ? TUBES : wants.join(" "))}`;
}
