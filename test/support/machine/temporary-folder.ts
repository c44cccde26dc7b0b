// A folder for one test, removed with it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Its name begins with `runnerbean-` and `name`. */
export function temporaryFolder(t: { after(done: () => void): unknown }, name = "test"): string {
  const folder = mkdtempSync(join(tmpdir(), `runnerbean-${name}-`));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}
