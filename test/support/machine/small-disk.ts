// A disk for one test that fills up soon: a tmpfs, if mounting is allowed.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/**
 * Its folder; undefined, and the test is skipped, where mounting is not allowed. `size` is one of
 * mount's, such as 4m.
 */
export function smallDisk(t: TestContext, size: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-disk-"));
  t.after(() => {
    spawnSync("umount", [folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  if (spawnSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder]).status === 0) return folder;
  t.skip("SKIPPED: mounting a tmpfs is not allowed here");
  return undefined;
}
