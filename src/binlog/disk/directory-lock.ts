// Lock that keeps a second server out of the directory, ours or beanstalkd: both respect the same
// lock.
//
// beanstalkd holds a POSIX record lock on the file `lock`. Node has no fcntl, but its SQLite takes
// such locks: an exclusive transaction on the empty file `lock` locks some of its bytes without
// writing any. beanstalkd's lock covers the whole file, so each server keeps the other out. The
// kernel releases the lock when the process dies, however it dies. A POSIX lock ends when the
// process first closes the file, so no other code here may open `lock`.

import * as fs from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BinlogError, ownerStep, reasonOf, systemCode } from "./binlog-error.ts";
import { ownerOfFiles } from "./real-disk.ts";

const LOCK_NAME = "lock";
const SQLITE_BUSY = 5;

/**
 * Returns the process that holds a lock on a file, according to the kernel: 0 if it is in another
 * namespace or unknown, undefined if no process of this machine holds one.
 */
function lockHolder(file: string): number | undefined {
  try {
    const { ino } = fs.statSync(file);
    for (const line of fs.readFileSync("/proc/locks", "utf8").split("\n")) {
      const match = /POSIX\s+ADVISORY\s+WRITE\s+(-?\d+)\s+\S+:(\d+)\s/.exec(line);
      if (match !== null && Number(match[2]) === ino) return Math.max(0, Number(match[1]));
    }
    return undefined;
  } catch {
    // /proc only improves the message.
    return 0;
  }
}

export class DirectoryLock {
  readonly #database: DatabaseSync;

  private constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Takes the lock. Throws a BinlogError if the directory is unusable or in use. */
  static take(path: string, isAgain = false): DirectoryLock {
    const file = join(path, LOCK_NAME);
    makeLockFile(path, file);
    let database: DatabaseSync | undefined;
    try {
      database = new DatabaseSync(file, { timeout: 0 });
      database.exec("PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE");
      return new DirectoryLock(database);
    } catch (error) {
      database?.close();
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw cannotUse(path, error);
      const holder = lockHolder(file);
      // Its holder may have ended just now.
      if (holder === undefined && !isAgain) return DirectoryLock.take(path, true);
      if (holder === undefined) throw cannotLock(file);
      const who = holder > 0 ? `process ${holder}` : "another process";
      throw new BinlogError(
        "BINLOG_LOCKED",
        `Cannot open binlog: ${path} is locked by ${who}`,
        "Stop that server first, or name another directory. To copy the jobs of a running server: runnerbean backup.",
      );
    }
  }

  release(): void {
    this.#database.exec("ROLLBACK");
    this.#database.close();
  }
}

function makeLockFile(path: string, file: string): void {
  try {
    const handle = fs.openSync(file, "wx", 0o600);
    try {
      ownerOfFiles(path)?.give(handle);
    } finally {
      fs.closeSync(handle);
    }
  } catch (error) {
    // The file exists. Don't open it: closing it could release a lock of this process.
    if (systemCode(error) !== "EEXIST") throw cannotUse(path, error);
  }
  try {
    fs.accessSync(path, fs.constants.W_OK | fs.constants.R_OK);
    fs.accessSync(file, fs.constants.W_OK | fs.constants.R_OK);
  } catch (error) {
    throw cannotUse(path, error);
  }
}

/** SQLite says "busy" for ENOLCK, too. */
function cannotLock(file: string): BinlogError {
  return new BinlogError(
    "BINLOG_LOCKED",
    `Cannot lock ${file}: no process of this machine holds it, so its file system has no locks (ENOLCK), or a server on a different machine uses it`,
    "Give -b a directory on a local disk, or mount this one with locks (NFS: without nolock, and with rpc.statd).",
  );
}

function cannotUse(path: string, error: unknown): BinlogError {
  return new BinlogError(
    "BINLOG_DIR",
    `Cannot use ${path} for the binlog: ${reasonOf(error)}`,
    systemCode(error) === "EACCES"
      ? ownerStep(path)
      : "Give -b an existing directory that this user may write to. Under systemd, runnerbean config check says what its unit permits.",
    error,
  );
}
