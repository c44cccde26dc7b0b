// What `runnerbean WORD …` does where the first word is no option: tools, which start no server.

/** Each reads its code only when it is asked for. */
const SUBCOMMANDS: Readonly<Record<string, (args: string[]) => Promise<unknown>>> = {
  async binlog(args) {
    const { binlogCommand } = await import("../binlog/tools/cli.ts");
    await binlogCommand().parseAsync(args, { from: "user" });
  },
  async config(args) {
    const { configCommand } = await import("./config-command.ts");
    await configCommand().parseAsync(args, { from: "user" });
  },
  async replica(args) {
    const { replicaCommand } = await import("./replica-command.ts");
    await replicaCommand().parseAsync(args, { from: "user" });
  },
  async token(args) {
    const { tokenCommand } = await import("./token-command.ts");
    await tokenCommand().parseAsync(args, { from: "user" });
  },
};

/** Runs the tool that the arguments name; false if they name none. */
export async function runSubcommand([word = "", ...args]: readonly string[]): Promise<boolean> {
  if (!Object.hasOwn(SUBCOMMANDS, word)) return false;
  await SUBCOMMANDS[word]!(args);
  return true;
}
