// -u: switches to another user with that user's groups, and drops those of root.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { ExitCode, OperatorError } from "../options/operator-error.ts";

/**
 * Returns the user's group id, from the name service if there is one. Throws an OperatorError for
 * an unknown user.
 */
function primaryGroupOf(user: string): number {
  let entries: string;
  try {
    entries = execFileSync("getent", ["passwd", user], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch {
    try {
      entries = readFileSync("/etc/passwd", "utf8");
    } catch (error) {
      throw new OperatorError(
        `cannot look up user "${user}": ${(error as Error).message}`,
        ExitCode.UserLookup,
      );
    }
  }
  const entry = entries.split("\n").find((line) => line.startsWith(`${user}:`));
  if (entry === undefined) throw new OperatorError(`no such user: "${user}"`, ExitCode.UserUnknown);
  return Number(entry.split(":")[3]);
}

/** Switches the whole process. Call it after binding and before serving. */
export function switchUser(user: string): void {
  const group = primaryGroupOf(user);
  try {
    (process as typeof process & { initgroups(user: string, group: number): void }).initgroups(user, group);
    process.setgid!(group);
    process.setuid!(user);
  } catch (error) {
    throw new OperatorError(
      `cannot switch to user "${user}": ${(error as Error).message}`,
      ExitCode.UserSwitch,
    );
  }
}
