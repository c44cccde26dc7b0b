// A file system directory behind the Disk interface; the storage uses node:fs only here.

import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { assert } from "../../base/assert.ts";
import { segmentNumber } from "../../base/text.ts";
import { isDescriptorShortage } from "./binlog-error.ts";
import type { BackgroundSync, Disk, EndedSync, Handle } from "./disk.ts";

// Owner of a directory's files: the server, which runs as another user, must be able to use files
// that root creates.

class FileOwner {
  readonly #uid: number;
  readonly #gid: number;
  readonly #mode: number;

  constructor(uid: number, gid: number, mode: number) {
    this.#uid = uid;
    this.#gid = gid;
    this.#mode = mode;
  }

  /** Gives a newly created file to this owner. */
  give(handle: Handle): void {
    fs.fchownSync(handle, this.#uid, this.#gid);
    fs.fchmodSync(handle, this.#mode);
  }
}

/**
 * Returns the owner, group and mode of the log's newest file, or the directory's owner if there is
 * none. Returns undefined unless the user is root, because others own the files they create anyway.
 */
export function ownerOfFiles(path: string): FileOwner | undefined {
  if (process.geteuid?.() !== 0) return undefined;
  const newest = fs
    .readdirSync(path)
    .filter((name) => segmentNumber(name) > 0)
    .sort()
    .at(-1);
  const { uid, gid, mode } = fs.statSync(newest === undefined ? path : join(path, newest));
  return new FileOwner(uid, gid, newest === undefined ? 0o600 : mode & 0o777);
}

// Reserve of descriptors, so that the log can open files even when connections use up all others.

export class DescriptorReserve {
  readonly #size: number;
  /** Open on /dev/null. */
  readonly #spare: Handle[] = [];
  /**
   * Unneeded files that stay open: during a shortage, another thread would take the descriptor of a
   * closed file.
   */
  readonly #unclosed: Handle[] = [];

  /** Reserves up to `size` descriptors, or fewer if there are no more. */
  constructor(size: number) {
    this.#size = size;
    this.#refill();
  }

  get count(): number {
    return this.#spare.length + this.#unclosed.length;
  }

  /**
   * Opens a file, and gives up a reserved descriptor if no other is left. A thread that accepts
   * connections may take the freed one first, hence the retries.
   */
  open(file: string, flags: string | number, mode?: number): Handle {
    for (let tries = 0; ; tries++) {
      try {
        const handle = fs.openSync(file, flags, mode);
        if (tries > 0) this.#refill();
        return handle;
      } catch (error) {
        if (!isDescriptorShortage(error)) throw error;
        const given = this.#unclosed.pop() ?? this.#spare.pop();
        if (given === undefined) throw error;
        fs.closeSync(given);
      }
    }
  }

  /** Closes a file, or keeps its descriptor if the reserve is short and can't get another. */
  close(handle: Handle): void {
    this.#refill();
    if (this.count < this.#size) this.#unclosed.push(handle);
    else fs.closeSync(handle);
    assert(this.count <= this.#size, "the reserve is no larger than was asked for");
  }

  #refill(): void {
    while (this.#spare.length < this.#size) {
      try {
        this.#spare.push(fs.openSync("/dev/null", "r"));
      } catch {
        return;
      }
      // A removed file occupies the disk as long as it is open.
      const unclosed = this.#unclosed.pop();
      if (unclosed !== undefined) fs.closeSync(unclosed);
    }
  }
}

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
    assert(start + length <= into.length, "the bytes to read fit into their memory");
    return fs.readSync(handle, into, start, Math.min(length, this.#callBytesMax), position);
  }

  write(handle: Handle, from: Uint8Array, start: number, length: number, position: number): void {
    assert(start + length <= from.length, "the bytes to write lie in their memory");
    let done = 0;
    while (done < length) {
      const bytes = Math.min(length - done, this.#callBytesMax);
      done += fs.writeSync(handle, from, start + done, bytes, position + done);
    }
  }

  truncate(handle: Handle, bytes: number): void {
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

/** Bytes of one read past the cache. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Reads a whole file from the disk itself: the page cache may still have what the disk has lost. It
 * rests after each piece for as long as that took, so that others get half of a slow disk. Where
 * the file system can't read past the cache (EINVAL), it reads through it.
 */
export async function readPastCache(file: string): Promise<Uint8Array> {
  const { O_RDONLY, O_DIRECT = 0 } = fs.constants;
  try {
    return await readPieces(file, O_RDONLY | O_DIRECT);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
    return await readPieces(file, O_RDONLY);
  }
}

async function readPieces(file: string, flags: number): Promise<Uint8Array> {
  const handle = fs.openSync(file, flags);
  try {
    const { size } = fs.fstatSync(handle);
    // O_DIRECT needs memory that begins at a page; that of a resizable buffer does.
    const bytesMax = PIECE_BYTES * Math.ceil((size + 1) / PIECE_BYTES);
    const bytes = new Uint8Array(new ArrayBuffer(bytesMax, { maxByteLength: bytesMax }));
    let got = 0;
    while (got < size) {
      const beganMs = performance.now();
      const read = fs.readSync(handle, bytes, got, PIECE_BYTES, got);
      got += read;
      // A piece is short at the end of the file; from there, no further read would be aligned.
      if (read < PIECE_BYTES) break;
      await sleep(performance.now() - beganMs);
    }
    return bytes.subarray(0, got);
  } finally {
    fs.closeSync(handle);
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

// Syncs a file on one of libuv's threads, for a log that shares its thread with clients.

export class RealBackgroundSync implements BackgroundSync {
  readonly #path: string;
  readonly #clockMs: () => number;
  #name = "";
  /**
   * Opened for these syncs alone. So the log may close its own descriptor meanwhile, and the kernel
   * reports a failed write to both.
   */
  #handle: Handle | undefined;
  #beganMs = 0;
  #isUnderWay = false;
  #ended: EndedSync | undefined;
  #forgets = false;
  #isClosed = false;

  constructor(path: string, clockMs: () => number) {
    this.#path = path;
    this.#clockMs = clockMs;
  }

  begin(name: string, handle: Handle): boolean {
    assert(!this.#isUnderWay && this.#ended === undefined, "one sync at a time");
    assert(!this.#isClosed, "a closed log syncs nothing");
    if (name !== this.#name) this.#open(name, handle);
    if (this.#handle === undefined) return false;
    this.#beganMs = this.#clockMs();
    this.#isUnderWay = true;
    fs.fdatasync(this.#handle, this.#end);
    return true;
  }

  /**
   * Without a descriptor, the log syncs as it does without a background. So it does if the name is
   * that of another file, because someone has replaced the directory.
   */
  #open(name: string, handle: Handle): void {
    this.#close();
    try {
      this.#handle = fs.openSync(join(this.#path, name), "r");
      if (isSameFile(this.#handle, handle)) this.#name = name;
      else this.#close();
    } catch {
      this.#close();
    }
  }

  readonly #end = (error: NodeJS.ErrnoException | null): void => {
    assert(this.#isUnderWay, "a sync that ends has begun");
    this.#isUnderWay = false;
    this.#ended = { tookMs: this.#clockMs() - this.#beganMs, error: error ?? undefined };
    if (this.#forgets) this.#close();
  };

  take(): EndedSync | undefined {
    const ended = this.#ended;
    assert(ended === undefined || !this.#isUnderWay, "none begins before the last one is taken");
    this.#ended = undefined;
    return ended;
  }

  forget(): void {
    this.#forgets = true;
    if (!this.#isUnderWay) this.#close();
  }

  close(): void {
    this.#isClosed = true;
    this.forget();
  }

  #close(): void {
    if (this.#handle !== undefined) fs.closeSync(this.#handle);
    this.#handle = undefined;
    this.#name = "";
    this.#forgets = false;
  }
}

function isSameFile(one: Handle, other: Handle): boolean {
  const [{ dev, ino }, file] = [fs.fstatSync(one), fs.fstatSync(other)];
  return dev === file.dev && ino === file.ino;
}
