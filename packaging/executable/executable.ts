// The executable: Node with the bundle inside (a "single executable application").

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { arch } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Node for this architecture, from the optional dependency. */
export const NODE = join(ROOT, "node_modules", `node-linux-${arch()}`, "bin", "node");

/** Files of the bundle, by the names that the loader asks for. */
function assets(bundle: string): Record<string, string> {
  const names = ["runnerbean.cjs", ...globSync("{parts,dashboard}/*", { cwd: bundle })].sort();
  return Object.fromEntries(names.map((name) => [name, join(bundle, name)]));
}

/** Copies Node without its symbols, which take a fifth of the file, if this machine has strip. */
function withoutSymbols(folder: string): string {
  const copy = join(folder, "node");
  cpSync(NODE, copy);
  try {
    execFileSync("strip", ["--strip-all", copy], { stdio: "ignore" });
  } catch {
    process.stderr.write("The executable keeps Node's symbols: there is no strip (Debian: binutils)\n");
    cpSync(NODE, copy);
  }
  return copy;
}

/** Makes an executable from the bundle in a folder. The same bundle and Node make the same bytes. */
export function makeExecutable(bundle: string, output: string): void {
  if (!existsSync(NODE)) throw new Error(`${NODE} is missing: npm ci installs it`);
  const folder = mkdtempSync(`${output}-`);
  try {
    const settings = join(folder, "settings.json");
    writeFileSync(
      settings,
      JSON.stringify({
        main: join(bundle, "runnerbean.cjs"),
        executable: withoutSymbols(folder),
        output,
        disableExperimentalSEAWarning: true,
        // What is experimental in Node (node:ffi) is mentioned in docs/differences.md.
        execArgv: ["--disable-warning=ExperimentalWarning"],
        assets: assets(bundle),
      }),
    );
    execFileSync(NODE, [`--build-sea=${settings}`], { stdio: ["ignore", "ignore", "inherit"] });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
