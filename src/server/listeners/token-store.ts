// The token file on disk. It is read as a whole or not at all, and replaced atomically.

import { chmodSync, chownSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { parseTokenFile, type Token } from "../../access/token-file.ts";
import { readOperatorFile } from "../../config/operator-file.ts";
import { ExitCode, OperatorError, operatorFault } from "../options/operator-error.ts";

const MODE_NEW = 0o600;
/** Faults that one message names; a file of another kind would have one in each line. */
const FAULTS_MAX = 10;

const fault = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage);

/** Returns all tokens of the file. Throws an OperatorError that names every fault with its line. */
export function readTokens(path: string): readonly Token[] {
  const { tokens, faults } = parseTokenFile(readText(path));
  const lines = faults.slice(0, FAULTS_MAX).map(({ line, message }) => `${path}:${line}: ${message}`);
  if (faults.length > FAULTS_MAX) lines.push(`${path}: and ${faults.length - FAULTS_MAX} more faults`);
  if (faults.length > 0) throw fault(lines.join("\n"));
  return tokens;
}

function readText(path: string): string {
  return operatorFault(() => readOperatorFile("tokens", path));
}

/** Returns the file's text; empty if there is no file yet, or nothing in it. */
export function readTokenText(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined || (found.isFile() && found.size === 0) ? "" : readText(path);
}

/** Replaces the whole file; owner and mode stay the same. Throws an OperatorError. */
export function writeTokenText(path: string, text: string): void {
  // The name serves as a lock: without it, one of two concurrent changes would be lost.
  const next = `${path}.new`;
  try {
    const before = statSync(path, { throwIfNoEntry: false });
    writeFileSync(next, text, { flag: "wx", mode: MODE_NEW });
    try {
      if (before !== undefined) {
        chmodSync(next, before.mode & 0o777);
        if (process.getuid?.() === 0) chownSync(next, before.uid, before.gid);
      }
      renameSync(next, path);
    } catch (error) {
      rmSync(next, { force: true });
      throw error;
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === "EEXIST" ? `another process is writing it; if not, remove ${next}` : message;
    throw fault(`cannot write the token file ${path}: ${why}`);
  }
}
