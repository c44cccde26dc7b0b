// The executable: Node with the bundle inside (a "single executable application").

import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Architecture, copyStrippedNode, HERE, nodePackage } from "../node.ts";

/**
 * Files of the bundle, by the names that the loader requests. Compiled code works only on the
 * machine that compiled it; elsewhere, V8 would refuse it.
 */
function assets(bundle: string, architecture: Architecture): Record<string, string> {
  const all = ["runnerbean.cjs", ...globSync("{parts,dashboard}/*", { cwd: bundle })].sort();
  const names = architecture === HERE ? all : all.filter((name) => !name.endsWith(".cache"));
  return Object.fromEntries(names.map((name) => [name, join(bundle, name)]));
}

/**
 * Builds an executable from the bundle in a folder. The same bundle and Node give the same bytes,
 * in any folder.
 */
export function makeExecutable(bundle: string, file: string, architecture = HERE): void {
  const output = resolve(file);
  const folder = mkdtempSync(`${output}-`);
  try {
    const stripped = join(folder, "node");
    copyStrippedNode(architecture, stripped);
    const settings = join(folder, "settings.json");
    writeFileSync(
      settings,
      JSON.stringify({
        main: "runnerbean.cjs",
        executable: stripped,
        output,
        disableExperimentalSEAWarning: true,
        // docs/differences.md mentions the experimental parts of Node (node:ffi).
        execArgv: ["--disable-warning=ExperimentalWarning", "--disable-sigusr1"],
        assets: assets(bundle, architecture),
      }),
    );
    execFileSync(join(nodePackage(HERE), "bin/node"), [`--build-sea=${settings}`], {
      // The path of the main file stays in the executable, and must not reveal where it was built.
      cwd: bundle,
      stdio: ["ignore", "ignore", "inherit"],
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
