// `completion`: a script for a shell, generated from the commands.

import { Argument, Command } from "commander";
import { print } from "../output.ts";
import { bashCompletion } from "./completion-bash.ts";
import { fishCompletion } from "./completion-fish.ts";
import { knownCommands } from "./completion-tree.ts";
import { zshCompletion } from "./completion-zsh.ts";

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
