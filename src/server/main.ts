// Entry point: sets up the process's environment, then starts the server or the requested tool.

import module from "node:module";
import { fileURLToPath } from "node:url";
import { runSubcommand } from "./tools/subcommands.ts";

// Caching compiled modules halves the start of every thread. The cache is in the package's own
// folder, because in a shared temporary one, other users could plant code.
const cache = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url));
// To Node, an empty name means no cache; to enableCompileCache, the working directory.
process.env["NODE_COMPILE_CACHE"] ||= cache;
module.enableCompileCache(process.env["NODE_COMPILE_CACHE"]);

/**
 * Sets a fixed mmap threshold for glibc's malloc. By default, glibc raises it as soon as a mapping
 * is freed, and then keeps the memory that the engine's slabs release; a fixed threshold returns it
 * to the system. It can only be set before the process starts, so the process executes itself
 * again. Sockets inherited from systemd would not survive that; its unit sets the variable itself.
 */
const MMAP_THRESHOLD = "MALLOC_MMAP_THRESHOLD_";

function fixMallocThreshold(): void {
  const { env } = process;
  if (env[MMAP_THRESHOLD] !== undefined || env["LISTEN_FDS"] !== undefined || !process.execve) return;
  const environment = { ...env, [MMAP_THRESHOLD]: "262144" } as Record<string, string>;
  process.execve(
    process.execPath,
    [process.execPath, ...process.execArgv, ...process.argv.slice(1)],
    environment,
  );
}

if (!(await runSubcommand(process.argv.slice(2)))) {
  fixMallocThreshold();
  const { main } = await import("./server.ts");
  await main();
}
