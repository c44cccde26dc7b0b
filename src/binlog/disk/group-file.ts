// Record of a directory's group: `group.json` beside the segments.

import { assert } from "../../base/assert.ts";
import { damaged, encodeChecked, type FieldChecks, isInteger, readChecked } from "./checked-json.ts";
import type { Disk } from "./disk.ts";
import { replaceWhole } from "./whole-file.ts";

const NAME = "group.json";
const REMEDY =
  "Move the directory away to get everything from the group; if no other server has its jobs, remove that file and reseed the group from the directory.";

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

const CHECKS: FieldChecks<GroupFile> = {
  groupId: (value) => typeof value === "string",
  node: isInteger(1, 2 ** 32 - 1),
  adoptAfter: isInteger(0),
};

export function readGroupFile(disk: Disk): GroupFile | undefined {
  if (!disk.names().includes(NAME)) return undefined;
  try {
    return readChecked(disk, NAME, CHECKS, REMEDY);
  } catch (error) {
    if (error instanceof SyntaxError) throw damaged(disk, NAME, "it isn't JSON", REMEDY);
    throw error;
  }
}

export function writeGroupFile(disk: Disk, file: GroupFile): void {
  assert(file.node > 0 && file.adoptAfter >= 0, "a node of a group has a number");
  replaceWhole(disk, NAME, ".new", encodeChecked(file));
}
