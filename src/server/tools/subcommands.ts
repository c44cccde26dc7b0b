// Dispatcher of `runnerbean WORD …`: runs tools, which don't start a server.

import { Command } from "commander";
import { printableLines } from "../../base/text.ts";
import { tell } from "../../cli/output.ts";
import { nearestWord } from "../../config/read-settings.ts";
import { PROGRAM, SUBCOMMAND_WORDS } from "../options/program.ts";

/** The exit code of CommandFailed for bad arguments, and of the server for a bad flag. */
const BAD_ARGUMENTS = 5;

/** Runs the tool that the first argument names. */
export async function runSubcommand(args: readonly string[]): Promise<void> {
  const [word = "", ...rest] = args;
  if (word === "help") return await showHelp(rest);
  const program = word === "completion" ? await allCommands() : new Command(PROGRAM);
  if (word !== "completion") for (const command of await commandsFor(word)) program.addCommand(command);
  // The reader of the output may close it early, as `head` does.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    tell(`${PROGRAM}: cannot write the output: ${error.message}`);
    process.exit(1);
  });
  for (const command of program.commands) hintAtHelp(command, PROGRAM);
  // These tools have exit codes of their own.
  if (!["binlog", "replica", "restore"].includes(word))
    for (const command of program.commands) exitAsServer(command);
  await program.parseAsync(args as string[], { from: "user" });
  // A log server that accepts and says nothing leaves its socket open after the time limit.
  if (word === "doctor" || word === "replica") process.exit();
}

/** Shows the help of a tool, or of the server if no tool is named. */
async function showHelp(words: readonly string[]): Promise<void> {
  const names = words.filter((each) => !each.startsWith("-"));
  const [word] = names;
  if (word !== undefined && word !== "help" && SUBCOMMAND_WORDS.has(word))
    return await runSubcommand([...names, "--help"]);
  const { FLAGS_HINT, parseOptions } = await import("../options/options.ts");
  if (word === undefined || word === "help") {
    const help = parseOptions(["--help"], PROGRAM);
    if ("stdout" in help) process.stdout.write(help.stdout);
    return;
  }
  const nearest = nearestWord(word, SUBCOMMAND_WORDS);
  const meant = nearest === undefined ? "" : `: did you mean ${nearest}?`;
  tell(`${PROGRAM}: unknown command: ${word}${meant}\n${FLAGS_HINT}`.trimEnd());
  process.exitCode = BAD_ARGUMENTS;
}

/** Ends every message about wrong arguments with a hint, and escapes the arguments in it. */
function hintAtHelp(command: Command, parent: string): void {
  // Monitoring reads one line of `check`.
  if (command.name() === "check" && parent === PROGRAM) return;
  // Messages repeat the arguments, and scripts may pass on text from elsewhere.
  command.configureOutput({ writeErr: (text) => process.stderr.write(printableLines(text)) });
  const name = `${parent} ${command.name()}`;
  // Commander's own finds near spellings, but no longer or shorter words.
  Object.assign(command, {
    unknownOption: (flag: string) => void command.error(unknownOption(flag, command)),
  });
  command.showHelpAfterError(`See ${name} --help`);
  for (const child of command.commands) hintAtHelp(child, name);
}

/** Options of the server and of other programs that name the server to ask. */
const ADDRESSES = ["-l", "--listen", "-H", "--host", "--hostname", "--server", "--addr", "--address"];

function unknownOption(flag: string, command: Command): string {
  const known = command.options.filter(({ hidden }) => !hidden).flatMap(({ long }) => long ?? []);
  const related = known.find(
    (each) => flag.startsWith("--") && (each.startsWith(flag) || flag.startsWith(each)),
  );
  const meant =
    related ?? (ADDRESSES.includes(flag) && known.includes("--url") ? "--url" : nearestWord(flag, known));
  return `error: unknown option ${JSON.stringify(flag)}${meant === undefined ? "" : `: did you mean ${meant}?`}`;
}

function exitAsServer(command: Command): void {
  // `check` has exit codes of its own.
  if (command.name() === "check" && command.parent?.parent === null) return;
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : BAD_ARGUMENTS));
  for (const child of command.commands) exitAsServer(child);
}

/** Returns the tools of a word's group, and loads no other code. */
async function commandsFor(word: string): Promise<Command[]> {
  if (word === "binlog") return [await binlogCommand()];
  if (word === "restore") return [(await import("../../binlog/tools/cli.ts")).restoreCommand()];
  if (word === "doctor") return [(await import("./doctor-command.ts")).doctorCommand()];
  if (word === "config") return [(await import("./config-command.ts")).configCommand()];
  if (word === "replica") return [(await import("./replica-command.ts")).replicaCommand().name("replica")];
  if (word === "token") return [(await import("./token-command.ts")).tokenCommand()];
  return (await import("../../cli/commands/operator-commands.ts")).operatorCommands();
}

/**
 * Returns the tools for a log that no server uses, with the command that shows a server's own log.
 */
async function binlogCommand(): Promise<Command> {
  const { binlogCommand: tools, scrubDirectory } = await import("../../binlog/tools/cli.ts");
  const { binlogScrubCommand, binlogStatusCommand } = await import("../../cli/commands/over-http.ts");
  return tools().addCommand(binlogStatusCommand()).addCommand(binlogScrubCommand(scrubDirectory));
}

/** Returns all tools as one tree. */
export async function allCommands(): Promise<Command> {
  const program = new Command(PROGRAM);
  for (const word of ["", "binlog", "config", "doctor", "replica", "restore", "token"])
    for (const command of await commandsFor(word)) program.addCommand(command);
  const { completionCommand } = await import("../../cli/commands/completion.ts");
  const help = new Command("help").description("show the help of a tool, or of the server");
  return program.addCommand(completionCommand(() => program)).addCommand(help.argument("[command...]"));
}
