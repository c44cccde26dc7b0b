// A directory's record of its group: `group.json` beside the segments.

import { BinlogError } from "./binlog-error.ts";
import type { Disk } from "./disk.ts";
import { readWhole, replaceWhole } from "./whole-file.ts";

const NAME = "group.json";

export interface GroupFile {
  /** The id that the shared log got at its creation. */
  groupId: string;
  /** This directory's node number in the group: 32 random bits. */
  node: number;
  /**
   * Records up to this sequence are the directory's own jobs, whatever batches they came in,
   * because `reseed` starts the group from them.
   */
  adoptAfter: number;
}

export function readGroupFile(disk: Disk): GroupFile | undefined {
  if (!disk.names().includes(NAME)) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(readWhole(disk, NAME))) as GroupFile;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new BinlogError(
      "BINLOG_CORRUPT",
      `${disk.path}/${NAME} is damaged`,
      "Move the directory away to follow the group anew; if no other server has its jobs, remove that file and reseed the group from it.",
    );
  }
}

export function writeGroupFile(disk: Disk, file: GroupFile): void {
  replaceWhole(disk, NAME, ".new", new TextEncoder().encode(`${JSON.stringify(file)}\n`));
}
