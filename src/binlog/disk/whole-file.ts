// Reads and writes whole files: small ones beside the segments, and replaced segments.

import { assert } from "../../base/assert.ts";
import { type Disk, readFully } from "./disk.ts";

export function readWhole(disk: Disk, name: string): Uint8Array {
  const handle = disk.open(name, "read");
  try {
    const bytes = new Uint8Array(disk.bytes(handle));
    readFully(disk, handle, bytes, 0, bytes.length, 0);
    return bytes;
  } finally {
    disk.close(handle);
  }
}

/** Writes a file with durable content; its name is durable after `syncFolder`. */
export function writeWhole(disk: Disk, name: string, bytes: Uint8Array): void {
  const handle = disk.open(name, "create");
  try {
    disk.truncate(handle, 0);
    disk.write(handle, bytes, 0, bytes.length, 0);
    disk.sync(handle);
  } finally {
    disk.close(handle);
  }
}

/** Replaces a file atomically: writes under a name ending in `suffix`, then renames. */
export function replaceWhole(disk: Disk, name: string, suffix: string, bytes: Uint8Array): void {
  assert(suffix !== "", "a file is written beside the one that it replaces");
  writeWhole(disk, `${name}${suffix}`, bytes);
  disk.rename(`${name}${suffix}`, name);
  disk.syncFolder();
}
