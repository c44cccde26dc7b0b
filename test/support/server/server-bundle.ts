// The bundle of `npm run build`, made of the sources as they are, which `npm test` starts. From the
// sources, half of a start is reading some hundred modules, in each thread anew.

import { createHash } from "node:crypto";
import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundledFiles } from "../../../packaging/bundle/bundle.ts";
import { writeBundle } from "../../../packaging/bundle/write-bundle.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** Git knows nothing of it. */
const BUNDLES = join(ROOT, ".tmp", "server");
/** Longer than any run of the tests. */
const KEPT_MS = 24 * 3_600_000;

/**
 * Bundles the sources as they are now; returns the file to start, whose name is the same for the
 * same sources.
 */
export async function bundleServer(): Promise<string> {
  const files = await bundledFiles();
  const hash = createHash("sha256");
  for (const [path, contents] of files) hash.update(path).update(contents);
  const folder = join(BUNDLES, hash.digest("hex").slice(0, 16));
  if (!existsSync(folder)) {
    const unfinished = `${folder}.${process.pid}`;
    writeBundle(files, unfinished);
    keepAs(folder, unfinished);
    removeOld();
  }
  return join(folder, "runnerbean.cjs");
}

/** Whole or not at all: another run may start servers from it, or have made the same. */
function keepAs(folder: string, unfinished: string): void {
  try {
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
}

function removeOld(): void {
  for (const name of readdirSync(BUNDLES)) {
    const folder = join(BUNDLES, name);
    if (Date.now() - statSync(folder).mtimeMs > KEPT_MS) rmSync(folder, { recursive: true, force: true });
  }
}
