// Reader of the files that the operator names: configuration, tokens, tubes, certificates. None of
// them may block the main thread, which handles signals.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { ExitCode, OperatorError } from "./operator-error.ts";

/** Time limit for each file during a reload. */
const ANSWER_MS = 5000;

/**
 * Returns the text of a regular file. A FIFO or a device is refused, because reading it could take
 * forever.
 */
export function readOperatorFile(path: string, encoding: "utf8" | "latin1"): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const found = fstatSync(descriptor);
    if (!found.isFile() && !found.isDirectory())
      throw new Error(`${path} is a FIFO or a device; name a regular file`);
    return readFileSync(descriptor, encoding);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Resolves once all `paths` have been read or have failed. Throws an OperatorError for a file that
 * takes too long.
 */
export async function awaitFiles(paths: readonly string[]): Promise<void> {
  const readers = new Set<ChildProcess>();
  const end = (): void => {
    for (const reader of readers) reader.kill("SIGKILL");
  };
  // One listener for all readers: Node warns of a leak if there are more than ten.
  process.once("exit", end);
  const read = await Promise.allSettled(paths.map((path) => awaitFile(path, readers)));
  process.removeListener("exit", end);
  const late = read.find(({ status }) => status === "rejected");
  if (late !== undefined) throw (late as PromiseRejectedResult).reason;
}

/**
 * Reads the file in another process first. On a mount that doesn't answer, the read never ends, and
 * a thread that hangs in it would keep this process from exiting. `readers` holds the other process
 * while it reads.
 */
function awaitFile(path: string, readers: Set<ChildProcess>): Promise<void> {
  return new Promise((resolve, reject) => {
    const reader = spawn("cat", ["--", path], { stdio: "ignore" });
    readers.add(reader);
    const settle = (): void => {
      clearTimeout(timer);
      readers.delete(reader);
    };
    const timer = setTimeout(() => {
      settle();
      reader.kill("SIGKILL");
      reader.unref();
      const what = `${path} could not be read within ${ANSWER_MS / 1000} s`;
      reject(new OperatorError(`${what}: is it a FIFO, or on a mount that doesn't answer?`, ExitCode.Usage));
    }, ANSWER_MS);
    const answered = (): void => {
      settle();
      resolve();
    };
    reader.once("exit", answered);
    // Without `cat`, the files are read without this check.
    reader.once("error", answered);
  });
}
