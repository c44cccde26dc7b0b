// A folder of a test's own that goes away with it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** Its name begins with `runnerbean-` and `name`. */
export function temporaryFolder(t: TestContext, name = "test"): string {
  const folder = mkdtempSync(join(tmpdir(), `runnerbean-${name}-`));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
