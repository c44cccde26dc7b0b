// Syncs a file on one of libuv's threads, for a log that shares its thread with clients.

import * as fs from "node:fs";
import { join } from "node:path";
import { assert } from "../../base/assert.ts";
import type { BackgroundSync, EndedSync, Handle } from "./disk.ts";

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
