// Interface of the binlog's directory. real-disk.ts implements it with node:fs; the tests implement
// it in memory.

import { assert } from "../../base/assert.ts";

/** An open file. */
export type Handle = number;

/**
 * All calls are synchronous and throw the errors of node:fs (an Error with `code`: ENOSPC, EIO, …).
 * Names are relative to the directory and may begin with one folder ("set-aside/x"). Written data
 * is durable after a sync of the file; a created, renamed or removed name is durable after
 * syncFolder of its folder.
 */
export interface Disk {
  /** For messages, and for workers that open files themselves. */
  readonly path: string;
  /**
   * Returns the names of the files in a folder ("" is the directory itself); none if the folder is
   * missing.
   */
  names(folder?: string): string[];
  open(name: string, mode: "read" | "write" | "create"): Handle;
  close(handle: Handle): void;
  bytes(handle: Handle): number;
  /**
   * Reads up to `length` bytes and returns how many. Fewer bytes need not mean the end of the file,
   * but 0 does.
   */
  read(handle: Handle, into: Uint8Array, start: number, length: number, position: number): number;
  /** Writes all bytes or throws. */
  write(handle: Handle, from: Uint8Array, start: number, length: number, position: number): void;
  truncate(handle: Handle, bytes: number): void;
  /** fdatasync: makes the content durable, and the metadata needed to find it. */
  sync(handle: Handle): void;
  rename(from: string, to: string): void;
  unlink(name: string): void;
  makeFolder(name: string): void;
  syncFolder(folder?: string): void;
}

/** The result of a sync in the background. */
export interface EndedSync {
  readonly tookMs: number;
  /** Undefined if it succeeded. */
  readonly error: unknown;
}

/** A sync that doesn't hold up its thread; one at a time. */
export interface BackgroundSync {
  /**
   * Begins to sync a file of the directory, which is open as `handle`. Returns false if that is
   * impossible now.
   */
  begin(name: string, handle: Handle): boolean;
  /** Returns the result of the sync once it has ended, and only once. */
  take(): EndedSync | undefined;
  /** Closes the file, after a sync under way. It is opened again if it is needed. */
  forget(): void;
  /** Does the same for good. */
  close(): void;
}

/**
 * Fills `into[start, start + length)` up to the end of the file, and returns the number of bytes
 * read.
 */
export function readFully(
  disk: Disk,
  handle: Handle,
  into: Uint8Array,
  start: number,
  length: number,
  position: number,
): number {
  assert(start + length <= into.length && position >= 0, "the bytes to read fit into their memory");
  let done = 0;
  while (done < length) {
    const got = disk.read(handle, into, start + done, length - done, position + done);
    if (got === 0) break;
    done += got;
  }
  assert(done <= Math.max(0, length), "a read returns no more bytes than requested");
  return done;
}

// Reads and writes whole files: small ones beside the segments, and replaced segments.

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
