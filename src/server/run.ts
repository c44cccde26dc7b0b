// Runs the command line: a tool, or the server with its process set up.

import { writeFileSync } from "node:fs";
import { fixMallocThreshold } from "./lifecycle/malloc-threshold.ts";
import { PROGRAM, SUBCOMMAND_WORDS } from "./options/program.ts";

/**
 * Gives the process the program's name for `ps` and `pgrep`, where Node writes "node-MainThread".
 * The command line stays as it is.
 */
function nameProcess(): void {
  try {
    writeFileSync("/proc/self/comm", PROGRAM);
  } catch {
    // Without /proc, it keeps Node's name.
  }
}

/** Loads only the code that the command needs: reading code is most of the startup time. */
export async function run(): Promise<void> {
  nameProcess();
  const args = process.argv.slice(2);
  if (SUBCOMMAND_WORDS.has(args[0] ?? "")) {
    const { runSubcommand } = await import("./tools/subcommands.ts");
    return await runSubcommand(args);
  }
  fixMallocThreshold();
  const { main } = await import("./server.ts");
  await main();
}
