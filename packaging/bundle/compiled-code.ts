// V8's compiled code of the parts, in the form that `vm.Script` takes. V8 refuses it if its version
// or a flag differs.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { Script } from "node:vm";
import { HEAP_FLAG } from "./parts.ts";

/** Position of the hash of V8's flags in compiled code (SerializedCodeData in code-serializer.h). */
const FLAG_HASH = 12;
const FLAG_HASH_END = 16;

/**
 * Returns the compiled code of all parts by path. `node` is the Node that compiles; for another
 * architecture, it is another one.
 */
export function compiledCode(
  files: ReadonlyMap<string, Uint8Array>,
  node: readonly string[] = [process.execPath],
): Map<string, Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-parts-"));
  try {
    const sources = [...files].filter(([path]) => path.startsWith("parts/"));
    for (const [path, bytes] of sources) writeFileSync(join(folder, basename(path)), bytes);
    const [program, ...args] = node;
    // Each part in a separate process, without Node's cache of compiled code: earlier compilations
    // leave traces.
    const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: "1" };
    const compile = (seed: readonly string[], name: string): void => {
      const command = [...args, ...seed, fileURLToPath(import.meta.url), join(folder, name)];
      execFileSync(program!, command, { env, stdio: ["ignore", "ignore", "inherit"] });
    };
    const cacheOf = (name: string): Buffer => readFileSync(join(folder, cacheName(name)));
    const names = sources.map(([path]) => basename(path));
    // V8 hashes strings with a random seed, and the hashes stay in the code. With a fixed seed, all
    // builds are the same, but a process without that flag refuses the code. The build therefore
    // stores the hash of a process that has only the loader's flag.
    compile([HEAP_FLAG], names[0]!);
    const flagHash = cacheOf(names[0]!).subarray(FLAG_HASH, FLAG_HASH_END);
    for (const name of names) compile(["--hash-seed=1"], name);
    return new Map(
      names.map((name) => {
        const code = cacheOf(name);
        code.set(flagHash, FLAG_HASH);
        return [`parts/${cacheName(name)}`, code];
      }),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const cacheName = (name: string): string => name.replace(/\.js$/, ".cache");

/**
 * Compiles all functions, not only those that run at the start, since that selection would depend
 * on timing.
 */
function compile(path: string): void {
  setFlagsFromString("--no-lazy");
  const script = new Script(readFileSync(path, "latin1"), { filename: `runnerbean/${basename(path)}` });
  setFlagsFromString("--lazy");
  writeFileSync(cacheName(path), script.createCachedData());
}

if (import.meta.main) compile(process.argv[2]!);
