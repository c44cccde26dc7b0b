// Descriptors kept back for the log: what it has to open while connections have used up all others.

import * as fs from "node:fs";
import { isDescriptorShortage } from "./binlog-error.ts";
import type { Handle } from "./disk.ts";

export class DescriptorReserve {
  readonly #size: number;
  /** On /dev/null. */
  readonly #spare: Handle[] = [];
  /**
   * Files that nobody needs any more: a descriptor that is closed during a shortage is lost to somebody else.
   */
  readonly #unclosed: Handle[] = [];

  /** Keeps up to `size`, or fewer if there are no more. */
  constructor(size: number) {
    this.#size = size;
    this.#refill();
  }

  get count(): number {
    return this.#spare.length + this.#unclosed.length;
  }

  /**
   * Opens a file, and gives up a descriptor for it where no other is left. A thread that accepts connections
   * may be faster to take what was given up, so there is more than one try.
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

  /** Closes a file, or keeps its descriptor where the reserve lacks one and can get no other. */
  close(handle: Handle): void {
    this.#refill();
    if (this.count < this.#size) this.#unclosed.push(handle);
    else fs.closeSync(handle);
  }

  #refill(): void {
    while (this.#spare.length < this.#size) {
      try {
        this.#spare.push(fs.openSync("/dev/null", "r"));
      } catch {
        return;
      }
      // A file that was removed takes room on the disk for as long as it is open.
      const unclosed = this.#unclosed.pop();
      if (unclosed !== undefined) fs.closeSync(unclosed);
    }
  }
}
