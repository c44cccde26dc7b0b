// What a directory knows of its group: `group.json` beside the segments.

import { BinlogError } from "./binlog-error.ts";
import { type Disk, readFully } from "./disk.ts";

const NAME = "group.json";

export interface GroupFile {
  /** What the shared log got when it was made. */
  groupId: string;
  /** This directory's name in the group: a random 32-bit number. */
  node: number;
  /** Records up to this sequence are jobs of its own, whatever batches they came in: a `reseed` has made them the group's. */
  adoptAfter: number;
}

export function readGroupFile(disk: Disk): GroupFile | undefined {
  if (!disk.names().includes(NAME)) return undefined;
  const handle = disk.open(NAME, "read");
  try {
    const bytes = new Uint8Array(disk.bytes(handle));
    readFully(disk, handle, bytes, 0, bytes.length, 0);
    return JSON.parse(new TextDecoder().decode(bytes)) as GroupFile;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new BinlogError(
      "BINLOG_CORRUPT",
      `${disk.path}/${NAME} is damaged`,
      "Empty the directory to follow the group anew, or remove that file and reseed the group from it.",
    );
  } finally {
    disk.close(handle);
  }
}

export function writeGroupFile(disk: Disk, file: GroupFile): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(file)}\n`);
  const handle = disk.open(`${NAME}.new`, "create");
  try {
    disk.truncate(handle, 0);
    disk.write(handle, bytes, 0, bytes.length, 0);
    disk.sync(handle);
  } finally {
    disk.close(handle);
  }
  disk.rename(`${NAME}.new`, NAME);
  disk.syncFolder();
}
