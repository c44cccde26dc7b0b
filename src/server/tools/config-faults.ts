// Faults of a configuration, as a start would find them: first each key, then conflicts and files.

import { checkGroupOptions } from "../group/group-role.ts";
import { readAccessRules, readTls } from "../listeners/access-rules.ts";
import { checkSocketPaths } from "../listeners/listen-address.ts";
import { OperatorError } from "../options/operator-error.ts";
import { checkFile, faultsText, messageOf, parseOptions } from "../options/options.ts";
import { PROGRAM } from "../options/version.ts";

/**
 * Returns "" if the server would start with this file and these flags. It binds nothing and opens
 * no log.
 */
export function configFaults(path: string, flags: readonly string[]): string {
  const unreadable = faultOf(() => checkFile(path));
  if (unreadable !== undefined) return unreadable;
  const { faults } = checkFile(path);
  if (faults.length > 0) return faultsText(path, faults);
  const options = parseOptions([...flags, "--config", path], PROGRAM, {});
  // The hint about flags is no help here.
  if ("exitCode" in options) return `${path}: ${messageOf(options)}`;
  const looks = [
    () => checkGroupOptions(options),
    () => checkSocketPaths(options),
    () => readTls("http", options.httpTls),
    () => readAccessRules(options, options.listen !== "none"),
  ];
  return looks
    .map(faultOf)
    .filter((message) => message !== undefined)
    .map((message) => `${path}: ${message}`)
    .join("\n");
}

function faultOf(look: () => void): string | undefined {
  try {
    look();
    return undefined;
  } catch (error) {
    if (error instanceof OperatorError) return error.message;
    throw error;
  }
}
