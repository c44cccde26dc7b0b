// npm run build:executable: writes dist/runnerbean-linux-ARCH, Node with the bundle inside (a
// "single executable application").

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { arch } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DIST = join(ROOT, "dist");
const NODE = join(ROOT, "node_modules", `node-linux-${arch()}`, "bin", "node");

/** Files of the bundle, by the names that the loader asks for. */
function assets(): Record<string, string> {
  const names = ["runnerbean.cjs", ...globSync("{parts,dashboard}/*", { cwd: DIST })].sort();
  return Object.fromEntries(names.map((name) => [name, join(DIST, name)]));
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

const output = join(DIST, `runnerbean-linux-${arch()}`);
if (!existsSync(NODE)) throw new Error(`${NODE} is missing: npm ci installs it`);
const folder = mkdtempSync(join(DIST, "executable-"));
try {
  const settings = join(folder, "settings.json");
  writeFileSync(
    settings,
    JSON.stringify({
      main: join(DIST, "runnerbean.cjs"),
      executable: withoutSymbols(folder),
      output,
      disableExperimentalSEAWarning: true,
      // What is experimental in Node (node:ffi) is mentioned in docs/differences.md.
      execArgv: ["--disable-warning=ExperimentalWarning"],
      assets: assets(),
    }),
  );
  execFileSync(NODE, [`--build-sea=${settings}`], { stdio: ["ignore", "ignore", "inherit"] });
} finally {
  rmSync(folder, { recursive: true });
}
process.stdout.write(`${output}: ${Math.round(statSync(output).size / 2 ** 20)} MiB\n`);
