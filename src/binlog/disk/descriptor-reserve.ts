// Reserve of descriptors, so that the log can open files even when connections use up all others.

import * as fs from "node:fs";
import { assert } from "../../base/assert.ts";
import { isDescriptorShortage } from "./binlog-error.ts";
import type { Handle } from "./disk.ts";

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
