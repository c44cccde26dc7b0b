// `completion`: a script for a shell, generated from the commands.

import { Argument, Command, type Option } from "commander";
import { print } from "../output.ts";

// Tree of commands, as the completion scripts need it.

/** Value of an option: none, one of these words, a tube, or something that can't be completed. */
type Wanted = "nothing" | "tube" | "anything" | readonly string[];

interface KnownOption {
  /** "--pri", or "-n" if there is no long form. */
  readonly flag: string;
  readonly description: string;
  readonly wants: Wanted;
}

/** A command, as a shell sees it. */
interface Known {
  /** "config check"; "" for the program itself. */
  readonly path: string;
  /** Words that may follow: subcommands, or values of the argument. */
  readonly words: readonly { readonly word: string; readonly description: string }[];
  readonly options: readonly KnownOption[];
  readonly takesTube: boolean;
  readonly takesFile: boolean;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function knownCommands(command: Command, path = ""): Known[] {
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

// Case branches shared by the scripts for bash and zsh: candidates after a command and after an
// option.

/** Returns a branch for each command: its subcommands, its options, and whether it takes tubes. */
function commandCases(known: readonly Known[]): string {
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
function optionCases(known: readonly Known[]): string {
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

// Completion script for bash.

function bashCompletion(known: readonly Known[]): string {
  return `_runnerbean() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" path="" word words="" tubes=""
  local known=${quoted(` ${known.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} `)}
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    local next="\${path:+$path/}$word"
    [[ $known == *" $next "* ]] && path="$next"
  done
  path="\${path//\\// }"
  case "$path $before" in
${optionCases(known)}
    *) case "$path" in
${commandCases(known)}
    esac ;;
  esac
  COMPREPLY=()
  for word in $words; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done
  [[ -z $tubes || $current == -* ]] && return
  while IFS= read -r word; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$(printf %q "$word")")
  done < <(runnerbean tubes --names 2>/dev/null)
}
complete -o default -F _runnerbean runnerbean`;
}

// Completion script for zsh. It uses compadd, which quotes inserted text, and avoids the names
// `path` and `words`, which are special in zsh.

function zshCompletion(known: readonly Known[]): string {
  const inZsh = (cases: string): string => cases.replaceAll(") words=", ") candidates=");
  return `#compdef runnerbean
_runnerbean() {
  local command="" word next candidates="" tubes="" before="$words[CURRENT-1]"
  local known=${quoted(` ${known.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} `)}
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${command:+$command/}$word"
    [[ $known == *" $next "* ]] && command="$next"
  done
  command="\${command//\\// }"
  case "$command $before" in
${inZsh(optionCases(known))}
    *) case "$command" in
${inZsh(commandCases(known))}
    esac ;;
  esac
  compadd -- \${=candidates}
  [[ -n $tubes && $words[CURRENT] != -* ]] && compadd -- "\${(@f)$(runnerbean tubes --names 2>/dev/null)}"
  ((compstate[nmatches])) || _files
}
compdef _runnerbean runnerbean`;
}

// Completion script for fish.

const TUBES = "(runnerbean tubes --names 2>/dev/null)";

function fishCompletion(known: readonly Known[]): string {
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

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

/** `tree` builds all commands, and is called only when the command runs. */
export function completionCommand(tree: () => Command): Command {
  return new Command("completion")
    .description("print a script that completes commands, options and tubes")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .addHelpText("after", '\nIn ~/.bashrc: eval "$(runnerbean completion bash)"')
    .addHelpText("after", 'In ~/.zshrc, after compinit: eval "$(runnerbean completion zsh)"')
    .addHelpText("after", "In ~/.config/fish/config.fish: runnerbean completion fish | source")
    .action((shell: Shell) => print(completionScript(shell, tree())));
}

/**
 * Producers choose the names of tubes, and `$(reboot)` is a valid one. So no script lets its shell
 * expand names, and inserted names are quoted.
 */
export function completionScript(shell: Shell, tree: Command): string {
  const known = knownCommands(tree);
  if (shell === "bash") return bashCompletion(known);
  return shell === "zsh" ? zshCompletion(known) : fishCompletion(known);
}
