// Memory budget of the batches that an acceptor assembles from several shards, over all its
// connections. A client that does not read pins its batch, so the number of large ones is limited.

import { BATCH_BYTES_MAX } from "../../../protocol/limits.ts";
import { SerialQueue } from "../../state/serial-queue.ts";

/** When unread batches exceed this many bytes, new ones are small. */
const ALL_BYTES_MAX = 64 * 1024 * 1024;
const SMALL_BATCH_BYTES_MAX = 64 * 1024;

export class GatherBudget {
  /** Serialises the batches that are choosing jobs. */
  readonly queue: SerialQueue = new SerialQueue();
  #bytes = 0;

  /** Maximum body bytes that a batch may have now. */
  get batchBytesMax(): number {
    return this.#bytes < ALL_BYTES_MAX ? BATCH_BYTES_MAX : SMALL_BATCH_BYTES_MAX;
  }

  /** Adds to the memory in use; a negative number gives memory back. */
  count(bytes: number): void {
    this.#bytes += bytes;
  }
}
