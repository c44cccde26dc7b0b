// The token file on disk. It is read as a whole or not at all, and replaced atomically.

import { chmodSync, chownSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { parseTokenFile, type Token } from "../../access/token-file.ts";
import { ExitCode, OperatorError } from "../options/operator-error.ts";
import { readOperatorFile } from "../options/operator-file.ts";

const WRITABLE_BY_OTHERS = 0o022;
const MODE_NEW = 0o600;
const BYTES_MAX = 4 << 20;

const fault = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage);

/** Returns all tokens of the file. Throws an OperatorError that names every fault with its line. */
export function readTokens(path: string): readonly Token[] {
  const { tokens, faults } = parseTokenFile(readText(path));
  if (faults.length > 0)
    throw fault(faults.map(({ line, message }) => `${path}:${line}: ${message}`).join("\n"));
  return tokens;
}

function readText(path: string): string {
  try {
    const { mode, size } = statSync(path);
    // Users who can write the file could grant themselves access.
    if ((mode & WRITABLE_BY_OTHERS) !== 0)
      throw fault(`${path} can be written by users other than its owner: chmod go-w ${path}`);
    if (size > BYTES_MAX) throw fault(`${path} is larger than ${BYTES_MAX} bytes: is it the token file?`);
    return readOperatorFile(path, "utf8");
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw fault(`cannot read the token file ${path}: ${(error as Error).message}`);
  }
}

/** Returns the file's text; empty if there is no file yet. */
export function readTokenText(path: string): string {
  return statSync(path, { throwIfNoEntry: false }) === undefined ? "" : readText(path);
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
