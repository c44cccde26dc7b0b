// Turns the jobs of a directory into those of a new group: `runnerbean replica reseed`.

import { randomInt } from "node:crypto";
import { BinlogError } from "../disk/binlog-error.ts";
import { readGroupFile, writeGroupFile } from "../disk/checked-json.ts";
import { DirectoryLock } from "../disk/directory-lock.ts";
import { RealDisk } from "../disk/real-disk.ts";
import { readLog } from "../recovery/read-log.ts";

/**
 * Makes all records of the directory its own jobs, whatever batches they came in, so that its
 * server starts the group with them. Calls `make` with the directory's node number once the
 * directory is read and undamaged. Returns the number of jobs.
 */
export async function adoptDirectory(
  path: string,
  groupId: string,
  make: (node: number) => Promise<void>,
): Promise<number> {
  const lock = DirectoryLock.take(path);
  try {
    const disk = RealDisk.ofTool(path);
    if (disk.names().includes("cut.json")) {
      throw new BinlogError(
        "BINLOG_INPUT",
        `${path} was being truncated when its server ended`,
        "Start its server once with --replicate, stop it, and try again.",
      );
    }
    const { verdict, books } = await readLog({ disk, parallel: true, progress: () => {} }, false);
    const problem = verdict.problems[0];
    if (problem !== undefined) throw problem.error;
    const node = readGroupFile(disk)?.node ?? randomInt(1, 2 ** 32 - 2);
    await make(node);
    writeGroupFile(disk, { groupId, node, adoptAfter: verdict.lastSequence });
    return books.index.jobs;
  } finally {
    lock.release();
  }
}
