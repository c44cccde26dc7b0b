// The time stamp of artefacts, so that two builds of one commit are identical.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Returns SOURCE_DATE_EPOCH, or the time of the commit, in seconds. */
export function sourceDate(): number {
  const { SOURCE_DATE_EPOCH: given } = process.env;
  if (given !== undefined) {
    if (!/^\d{1,11}$/.test(given))
      throw new Error(`SOURCE_DATE_EPOCH: "${given}" is not a number of seconds since 1970`);
    return Number(given);
  }
  const git = ["log", "-1", "--format=%ct"];
  const root = fileURLToPath(new URL("..", import.meta.url));
  return Number(execFileSync("git", git, { cwd: root, encoding: "utf8" }));
}
