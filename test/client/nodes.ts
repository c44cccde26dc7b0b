// Nodes of this machine.

import { execFileSync } from "node:child_process";
import { delimiter, join } from "node:path";

/** Paths of the Nodes that run the client, the oldest first: of this process, and on the PATH. */
export function nodes(): string[] {
  const found = new Map([[process.version, process.execPath]]);
  const { PATH = "" } = process.env;
  for (const folder of PATH.split(delimiter)) {
    try {
      const version = execFileSync(join(folder, "node"), ["--version"], { encoding: "utf8" }).trim();
      if (Number(/\d+/.exec(version)) >= 20) found.set(version, join(folder, "node"));
    } catch {
      // There is none.
    }
  }
  return [...found].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).map(([, path]) => path);
}
