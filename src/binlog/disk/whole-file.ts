// Files that are read and written as a whole: small ones beside the segments, and segments that are made anew.

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

/** Its content is durable; its name is when `syncFolder` has been called. */
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

/** Writes it under a name ending in `suffix` first, so that at every moment there is the old file or the new one. */
export function replaceWhole(disk: Disk, name: string, suffix: string, bytes: Uint8Array): void {
  writeWhole(disk, `${name}${suffix}`, bytes);
  disk.rename(`${name}${suffix}`, name);
  disk.syncFolder();
}
