// The entry: gives the process the environment that it needs, then starts the server, or the tool that is asked for.

import module from "node:module";
import { fileURLToPath } from "node:url";
import { runSubcommand } from "./tools/subcommands.ts";

// Compiled modules are cached, which halves the start of every thread; in the package's own folder and not in
// a shared temporary one, where others could plant code.
const cache = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url));
// An empty name means none to Node, but the working directory to enableCompileCache.
process.env["NODE_COMPILE_CACHE"] ||= cache;
module.enableCompileCache(process.env["NODE_COMPILE_CACHE"]);

/**
 * glibc's malloc raises its threshold for separate mappings as soon as one is freed, and from then on keeps
 * what the engine's slabs give back. A fixed threshold, which can only be set before the process starts,
 * returns it to the system. Sockets inherited from systemd would not survive the second exec; its unit sets
 * the variable itself.
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
