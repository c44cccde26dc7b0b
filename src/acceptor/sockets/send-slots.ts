// Slots for replies on their way to the kernel, at fixed addresses.

import { copyBytes } from "../../base/bytes.ts";
import { halves, map } from "../../uring/kernel.ts";

/** Replies up to this size are copied to a slot, so that their buffer can be reused at once. */
export const STAGE_BYTES = 4096;
const STAGES = 512;

export class SendSlots {
  readonly #memory = map(STAGES * STAGE_BYTES);
  readonly #bytes = new Uint8Array(this.#memory.buffer);
  readonly #addresses = Array.from({ length: STAGES }, (_, stage) => this.#addressOf(stage, 0));
  readonly #free = Array.from({ length: STAGES }, (_, stage) => stage);

  /** Copies `bytes[0, length)` to a slot. Returns its number, or -1 if none is free. */
  put(bytes: Uint8Array, length: number): number {
    const stage = this.#free.pop();
    if (stage === undefined) return -1;
    copyBytes(this.#bytes, stage * STAGE_BYTES, bytes, 0, length);
    return stage;
  }

  /** Returns the address of the slot's bytes from `at` on. */
  address(stage: number, at = 0): { low: number; high: number } {
    return at === 0 ? this.#addresses[stage]! : this.#addressOf(stage, at);
  }

  #addressOf(stage: number, at: number): { low: number; high: number } {
    return halves(this.#memory.pointer + BigInt(stage * STAGE_BYTES + at));
  }

  give(stage: number): void {
    this.#free.push(stage);
  }
}
