// Entry point from the sources: caches compiled modules, then runs. A bundle starts at run.ts, and
// includes its compiled code.

import module from "node:module";
import { fileURLToPath } from "node:url";

// Caching compiled modules halves the start of every thread. The cache is in the package's own
// folder, because in a shared temporary one, other users could plant code.
const cache = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url));
// To Node, an empty name means no cache; to enableCompileCache, the working directory.
process.env["NODE_COMPILE_CACHE"] ||= cache;
module.enableCompileCache(process.env["NODE_COMPILE_CACHE"]);

const { run } = await import("./run.ts");
await run();
