// `completion`: a script for a shell, made from the commands themselves.

import { Argument, Command } from "commander";
import { print } from "../output.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

interface Known {
  readonly path: string;
  readonly description: string;
  readonly words: readonly string[];
  readonly options: readonly { readonly flag: string; readonly description: string }[];
  readonly takesTube: boolean;
}

/** `tree` is made anew with all commands when it is asked for. */
export function completionCommand(tree: () => Command): Command {
  return new Command("completion")
    .description("a script that completes commands, options and tubes")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .addHelpText("after", '\nIn ~/.bashrc: eval "$(runnerbean completion bash)"')
    .action((shell: Shell) => print(completionScript(shell, tree())));
}

export function completionScript(shell: Shell, tree: Command): string {
  const known = walk(tree, "");
  if (shell === "bash") return bash(known);
  return shell === "zsh" ? zsh(known) : fish(known);
}

function walk(command: Command, path: string): Known[] {
  const children = command.commands.filter((each) => each.name() !== "help");
  const own: Known = {
    path,
    description: command.description(),
    words: children.map((child) => child.name()),
    options: command.options
      .filter(({ hidden }) => !hidden)
      .map(({ long, short, description }) => ({ flag: long ?? short ?? "", description })),
    takesTube: command.registeredArguments.some((argument) =>
      /^(?:tubes?|to|what|job|name|glob)$/.test(argument.name()),
    ),
  };
  return [
    own,
    ...children.flatMap((child) => walk(child, path === "" ? child.name() : `${path} ${child.name()}`)),
  ];
}

const wordsOf = ({ words, options }: Known): string =>
  [...words, ...options.map(({ flag }) => flag)].join(" ");
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function bash(known: readonly Known[]): string {
  const cases = known.map((each) => {
    const tubes = each.takesTube ? " tubes=1" : "";
    return `    ${quoted(each.path)}) words=${quoted(wordsOf(each))}${tubes} ;;`;
  });
  return `_runnerbean() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" word words="" tubes=""
  local known=${quoted(` ${known.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} `)}
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    local next="\${path:+$path/}$word"
    [[ $known == *" $next "* ]] && path="$next"
  done
  case "\${path//\\// }" in
${cases.join("\n")}
  esac
  [[ -n $tubes && $current != -* ]] && words="$words $(runnerbean tubes --names 2>/dev/null)"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _runnerbean runnerbean`;
}

/** zsh runs bash's. */
function zsh(known: readonly Known[]): string {
  return `autoload -U +X bashcompinit && bashcompinit\n${bash(known)}`;
}

function fish(known: readonly Known[]): string {
  const lines = known.flatMap((each) => {
    const condition =
      each.path === ""
        ? "__fish_use_subcommand"
        : `__fish_seen_subcommand_from ${each.path.split(" ").at(-1)}`;
    const words = each.words.map((word) => {
      const about = known.find(({ path }) => path === (each.path === "" ? word : `${each.path} ${word}`));
      return `complete -c runnerbean -f -n ${quoted(condition)} -a ${quoted(word)} -d ${quoted(about?.description ?? "")}`;
    });
    const options = each.options
      .filter(({ flag }) => flag.startsWith("--"))
      .map(
        ({ flag, description }) =>
          `complete -c runnerbean -n ${quoted(condition)} -l ${flag.slice(2)} -d ${quoted(description)}`,
      );
    const tubes = each.takesTube
      ? [`complete -c runnerbean -f -n ${quoted(condition)} -a '(runnerbean tubes --names 2>/dev/null)'`]
      : [];
    return [...words, ...options, ...tubes];
  });
  return lines.join("\n");
}
