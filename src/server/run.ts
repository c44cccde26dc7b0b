// Runs the command line: a tool, or the server with its process set up.

import { fixMallocThreshold } from "./lifecycle/malloc-threshold.ts";
import { SUBCOMMAND_WORDS } from "./options/program.ts";

/** Loads only the code that the command needs: reading code is most of the startup time. */
export async function run(): Promise<void> {
  const args = process.argv.slice(2);
  if (SUBCOMMAND_WORDS.has(args[0] ?? "")) {
    const { runSubcommand } = await import("./tools/subcommands.ts");
    return await runSubcommand(args);
  }
  fixMallocThreshold();
  const { main } = await import("./server.ts");
  await main();
}
