// A file system directory behind the Disk interface; the storage uses node:fs only here.

import * as fs from "node:fs";
import { join } from "node:path";
import { assert } from "../../base/assert.ts";
import { DescriptorReserve } from "./descriptor-reserve.ts";
import type { Disk, Handle } from "./disk.ts";
import { type FileOwner, ownerOfFiles } from "./file-owner.ts";

/** Creating a file with "w+" would empty an existing one. */
const FLAGS = {
  read: fs.constants.O_RDONLY,
  write: fs.constants.O_RDWR,
  create: fs.constants.O_RDWR | fs.constants.O_CREAT,
} as const;

/** Maximum bytes per call: node:fs takes lengths as signed 32-bit numbers. */
const CALL_BYTES_MAX = 2 ** 30;

export class RealDisk implements Disk {
  readonly path: string;
  readonly #reserve: DescriptorReserve;
  /** The open directory, kept in case descriptors run short. */
  readonly #folder: Handle | undefined;
  /** The owner of new files; undefined to leave them to the user that creates them. */
  #owner: FileOwner | undefined;

  readonly #callBytesMax: number;

  /**
   * Reserves `spareDescriptors` until the thread ends; a system call moves up to `callBytesMax`
   * bytes.
   */
  constructor(path: string, spareDescriptors = 0, callBytesMax = CALL_BYTES_MAX) {
    this.path = path;
    assert(callBytesMax > 0, "a call moves bytes");
    this.#callBytesMax = callBytesMax;
    this.#reserve = new DescriptorReserve(spareDescriptors);
    if (spareDescriptors > 0) this.#folder = fs.openSync(path, "r");
  }

  /** Returns a disk for a tool, which may run as root: new files get the owner of the others. */
  static ofTool(path: string): RealDisk {
    const disk = new RealDisk(path);
    disk.#owner = ownerOfFiles(path);
    return disk;
  }

  names(folder = ""): string[] {
    try {
      return fs.readdirSync(join(this.path, folder));
    } catch (error) {
      if (folder !== "" && (error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  }

  open(name: string, mode: "read" | "write" | "create"): Handle {
    const handle = this.#reserve.open(join(this.path, name), FLAGS[mode], 0o600);
    if (mode === "create") this.#owner?.give(handle);
    return handle;
  }

  close(handle: Handle): void {
    this.#reserve.close(handle);
  }

  bytes(handle: Handle): number {
    return fs.fstatSync(handle).size;
  }

  read(handle: Handle, into: Uint8Array, start: number, length: number, position: number): number {
    assert(position >= 0, "a file is read at a valid position");
    assert(start + length <= into.length, "the bytes to read fit into their memory");
    return fs.readSync(handle, into, start, Math.min(length, this.#callBytesMax), position);
  }

  write(handle: Handle, from: Uint8Array, start: number, length: number, position: number): void {
    assert(start + length <= from.length, "the bytes to write lie in their memory");
    assert(position >= 0, "a file is written at a valid position");
    let done = 0;
    while (done < length) {
      const bytes = Math.min(length - done, this.#callBytesMax);
      done += fs.writeSync(handle, from, start + done, bytes, position + done);
    }
  }

  truncate(handle: Handle, bytes: number): void {
    assert(bytes >= 0, "a file has a length");
    fs.ftruncateSync(handle, bytes);
  }

  sync(handle: Handle): void {
    fs.fdatasyncSync(handle);
  }

  rename(from: string, to: string): void {
    fs.renameSync(join(this.path, from), join(this.path, to));
  }

  unlink(name: string): void {
    fs.unlinkSync(join(this.path, name));
  }

  makeFolder(name: string): void {
    fs.mkdirSync(join(this.path, name), { recursive: true, mode: 0o700 });
  }

  syncFolder(folder = ""): void {
    if (folder === "" && this.#folder !== undefined) {
      syncNames(this.#folder);
      return;
    }
    const handle = this.#reserve.open(join(this.path, folder), "r");
    try {
      syncNames(handle);
    } finally {
      this.close(handle);
    }
  }
}

/**
 * Syncs an open directory. Some file systems (CIFS, FUSE) answer EINVAL, as fsync(2) says: they
 * have no such operation, and keep the names by themselves.
 */
function syncNames(folder: Handle): void {
  try {
    fs.fsyncSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
  }
}
