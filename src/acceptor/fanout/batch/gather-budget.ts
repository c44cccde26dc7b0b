// Memory of the batches that are put together of several shards, over all connections of an acceptor. A client that does
// not read pins its batch, so there must not be any number of large ones.

import { BATCH_BYTES_MAX } from "../../../protocol/limits.ts";
import { SerialQueue } from "../../state/serial-queue.ts";

/** With so many bytes of batches not read, further ones are small. */
const ALL_BYTES_MAX = 64 * 1024 * 1024;
const SMALL_BATCH_BYTES_MAX = 64 * 1024;

export class GatherBudget {
  /** For those that choose their jobs. */
  readonly turnstile: SerialQueue = new SerialQueue();
  #bytes = 0;

  /** Most bytes of bodies that a batch may have now. */
  get batchBytesMax(): number {
    return this.#bytes < ALL_BYTES_MAX ? BATCH_BYTES_MAX : SMALL_BATCH_BYTES_MAX;
  }

  /** A batch takes so much memory, or with a negative number gives it back. */
  count(bytes: number): void {
    this.#bytes += bytes;
  }
}
