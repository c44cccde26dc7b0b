// Disk of the log: a small tmpfs that can be filled, if mounting is allowed; otherwise a plain
// directory.

import { spawnSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const DISK_BYTES = 80 << 20;
const BALLAST_BLOCK = Buffer.alloc(1 << 16, 0xaa);

export class SmallDisk {
  /** Where the log goes. */
  readonly directory: string;
  readonly canBeFilled: boolean;
  readonly #root: string;

  constructor(mount: boolean) {
    this.#root = mkdtempSync(join(tmpdir(), "runnerbean-soak-"));
    const size = `size=${DISK_BYTES}`;
    this.canBeFilled =
      mount && spawnSync("mount", ["-t", "tmpfs", "-o", size, "tmpfs", this.#root]).status === 0;
    this.directory = join(this.#root, "log");
    mkdirSync(this.directory);
    process.once("exit", () => this.remove());
  }

  /** Takes all room that is left. */
  fill(): void {
    const ballast = openSync(join(this.#root, "ballast"), "w");
    try {
      for (;;) writeSync(ballast, BALLAST_BLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(ballast);
    }
  }

  release(): void {
    rmSync(join(this.#root, "ballast"), { force: true });
  }

  /** Bytes of all files of the log. */
  logBytes(): number {
    return readdirSync(this.directory).reduce((sum, name) => sum + sizeOf(join(this.directory, name)), 0);
  }

  remove(): void {
    // Lazily: a server that was killed a moment ago may still be there.
    if (this.canBeFilled) spawnSync("umount", ["--lazy", this.#root]);
    rmSync(this.#root, { recursive: true, force: true });
  }
}

/** A segment may be unlinked between the listing and the look. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
