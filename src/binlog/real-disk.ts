// A directory of the file system behind the Disk interface; the only place of the storage that touches node:fs.

import * as fs from "node:fs";
import { join } from "node:path";
import type { Disk, Handle } from "./disk.ts";

const MODES = { read: "r", write: "r+", create: "a" } as const;

export class RealDisk implements Disk {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
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
    const file = join(this.path, name);
    // "a" would append whatever the position says, so it only makes the file.
    if (mode === "create") fs.closeSync(fs.openSync(file, MODES.create, 0o600));
    return fs.openSync(file, mode === "create" ? MODES.write : MODES[mode]);
  }

  close(handle: Handle): void {
    fs.closeSync(handle);
  }

  bytes(handle: Handle): number {
    return fs.fstatSync(handle).size;
  }

  read(handle: Handle, into: Uint8Array, start: number, length: number, position: number): number {
    return fs.readSync(handle, into, start, length, position);
  }

  write(handle: Handle, from: Uint8Array, start: number, length: number, position: number): void {
    let done = 0;
    while (done < length) done += fs.writeSync(handle, from, start + done, length - done, position + done);
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
    const handle = fs.openSync(join(this.path, folder), "r");
    try {
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
  }
}
