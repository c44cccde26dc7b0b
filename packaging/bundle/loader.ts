// First code of a bundle, in every thread: runs parts of the bundle, from the files beside it or
// from inside an executable, with the code that V8 compiled during the build.

import { accessSync, constants, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join } from "node:path";
import { getRawAsset, isSea } from "node:sea";
import { setFlagsFromString } from "node:v8";
import { Script } from "node:vm";
import { isMainThread, type WorkerOptions } from "node:worker_threads";
import { HEAP_FLAG, PARTS, type Parts } from "./parts.ts";

/** This file's name in the bundle. */
const LOADER = "runnerbean.cjs";
const isInExecutable = isSea();

function read(name: string): Buffer {
  if (isInExecutable) return Buffer.from(getRawAsset(name) as ArrayBuffer);
  return readFileSync(join(dirname(__filename), name));
}

function codeOf(part: string): Buffer | undefined {
  try {
    return read(`parts/${part}.cache`);
  } catch {
    return undefined;
  }
}

const loaded = new Map<string, unknown>();

/** Runs a part, once. If V8 refuses the compiled code (flags may differ), it compiles the source. */
function run(part: string): unknown {
  if (loaded.has(part)) return loaded.get(part);
  const source = read(`parts/${part}.js`).toString("latin1");
  const cachedData = codeOf(part);
  const filename = `runnerbean/${part}.js`;
  const script = new Script(source, cachedData === undefined ? { filename } : { filename, cachedData });
  const module = { exports: {} };
  // Packages ask for their folder, which has none of their files.
  script.runInThisContext()(module, module.exports, requireFor, filename, dirname(filename));
  loaded.set(part, module.exports);
  return module.exports;
}

/** The `require` of parts. It searches no folder, so that no other code can slip in. */
function requireFor(name: string): unknown {
  if (name === "runnerbean:parts") return parts;
  if (name.startsWith("runnerbean:")) return run(name.slice("runnerbean:".length));
  if (isBuiltin(name)) return process.getBuiltinModule(name);
  throw Object.assign(new Error(`${name} is not in the bundle`), { code: "MODULE_NOT_FOUND" });
}

const parts: Parts = {
  read,
  isReadable() {
    try {
      if (!isInExecutable) accessSync(__filename, constants.R_OK);
      return true;
    } catch {
      return false;
    }
  },
  threadOf(part: string, options: WorkerOptions) {
    const given = { ...options, argv: [part] };
    return isInExecutable ? [read(LOADER).toString("latin1"), { ...given, eval: true }] : [__filename, given];
  },
  provide(part: string, exports: unknown) {
    loaded.set(part, exports);
  },
};

// Compiled code depends on the flags, so this comes before the first part.
if (isMainThread) setFlagsFromString(HEAP_FLAG);
run(isMainThread ? PARTS.main : process.argv[2]!);
