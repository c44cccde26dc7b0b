// The one directory that the binlog lives in, as an interface: real-disk.ts stands on node:fs, the tests on
// memory.

/** An open file. */
export type Handle = number;

/**
 * Every call is synchronous and throws what node:fs throws (an Error with `code`: ENOSPC, EIO, …). Names are
 * relative to the directory and may have one folder in front ("set-aside/x"). What is written is durable
 * after sync of the file; a created, renamed or removed name is durable after syncFolder of its folder.
 */
export interface Disk {
  /** For messages and for workers that open files on their own. */
  readonly path: string;
  /** The names of the files in a folder ("" is the directory itself); a missing folder is empty. */
  names(folder?: string): string[];
  open(name: string, mode: "read" | "write" | "create"): Handle;
  close(handle: Handle): void;
  bytes(handle: Handle): number;
  /**
   * Reads up to `length` bytes and returns how many it read; fewer need not mean the end of the file, but 0
   * does.
   */
  read(handle: Handle, into: Uint8Array, start: number, length: number, position: number): number;
  /** Writes all of it or throws. */
  write(handle: Handle, from: Uint8Array, start: number, length: number, position: number): void;
  truncate(handle: Handle, bytes: number): void;
  /** fdatasync: the content and what is needed to find it. */
  sync(handle: Handle): void;
  rename(from: string, to: string): void;
  unlink(name: string): void;
  makeFolder(name: string): void;
  syncFolder(folder?: string): void;
}

/** Fills `into[start, start + length)` as far as the file goes and returns the bytes read. */
export function readFully(
  disk: Disk,
  handle: Handle,
  into: Uint8Array,
  start: number,
  length: number,
  position: number,
): number {
  let done = 0;
  while (done < length) {
    const got = disk.read(handle, into, start + done, length - done, position + done);
    if (got === 0) break;
    done += got;
  }
  return done;
}
