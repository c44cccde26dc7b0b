// What `runnerbean WORD …` does where the first word is no option: tools, which start no server.

import { Command } from "commander";
import { SUBCOMMAND_WORDS } from "../options/subcommand-words.ts";
import { PROGRAM } from "../options/version.ts";

/** As operatorCommands' CommandFailed for bad arguments, and as the server's for a bad flag. */
const BAD_ARGUMENTS = 5;

/** Runs the tool that the arguments name; false if they name none. */
export async function runSubcommand(args: readonly string[]): Promise<boolean> {
  const [word = ""] = args;
  if (!SUBCOMMAND_WORDS.has(word)) return false;
  const program = word === "completion" ? await allCommands() : new Command(PROGRAM);
  if (word !== "completion") for (const command of await commandsFor(word)) program.addCommand(command);
  // Whoever reads the output may have had enough, as `head`.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    process.stderr.write(`${PROGRAM}: cannot write the output: ${error.message}\n`);
    process.exit(1);
  });
  // The tools of the log have exit codes of their own.
  if (word !== "binlog" && word !== "replica") for (const command of program.commands) exitAsServer(command);
  await program.parseAsync(args as string[], { from: "user" });
  return true;
}

function exitAsServer(command: Command): void {
  // It has exit codes of its own.
  if (command.name() === "check" && command.parent?.parent === null) return;
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : BAD_ARGUMENTS));
  for (const child of command.commands) exitAsServer(child);
}

/** Of the tools that the word is one of; no other code is read. */
async function commandsFor(word: string): Promise<Command[]> {
  if (word === "binlog") return [await binlogCommand()];
  if (word === "config") return [(await import("./config-command.ts")).configCommand()];
  if (word === "replica") return [(await import("./replica-command.ts")).replicaCommand().name("replica")];
  if (word === "token") return [(await import("./token-command.ts")).tokenCommand()];
  return (await import("../../cli/commands/operator-commands.ts")).operatorCommands();
}

/** The tools for a log that no server uses, and what a server tells of its own. */
async function binlogCommand(): Promise<Command> {
  const { binlogCommand: tools } = await import("../../binlog/tools/cli.ts");
  const { binlogStatusCommand } = await import("../../cli/commands/over-http.ts");
  return tools().addCommand(binlogStatusCommand());
}

/** All tools as one tree. */
export async function allCommands(): Promise<Command> {
  const program = new Command(PROGRAM);
  for (const word of ["", "binlog", "config", "replica", "token"])
    for (const command of await commandsFor(word)) program.addCommand(command);
  const { completionCommand } = await import("../../cli/commands/completion.ts");
  return program.addCommand(completionCommand(() => program));
}
