// A RESERVED_BATCH reply assembled from the parts of several shards and written piece by piece as
// the client reads.

import { asciiBytes } from "../../../base/bytes.ts";
import type { ConversationHost } from "../conversation-host.ts";
import type { PiecedReply } from "../lists/list-replies.ts";
import type { GatheredJobs } from "./gathered-jobs.ts";

/** Bytes written per turn, after which other replies get theirs. */
const PIECE_BYTES = 32 * 1024;

export class BatchReply implements PiecedReply {
  queued = false;
  /** The number of jobs in the reply. */
  readonly jobs: number;
  readonly #host: ConversationHost;
  readonly #order: readonly number[];
  readonly #parts: ReadonlyMap<number, GatheredJobs>;
  #nextJob = 0;
  /** The unsent rest of the current job or of the first line. */
  #left: Uint8Array;
  #begun = false;

  /** `order` names the shard of each requested job. */
  constructor(host: ConversationHost, order: readonly number[], parts: ReadonlyMap<number, GatheredJobs>) {
    this.#host = host;
    this.#order = order;
    this.#parts = parts;
    this.jobs = [...parts.values()].reduce((sum, part) => sum + part.taken, 0);
    this.#left = asciiBytes(`RESERVED_BATCH ${this.jobs}\r\n`);
  }

  get mayGoOn(): boolean {
    return this.#host.mayTakeMore;
  }

  writePiece(): boolean {
    for (let room = PIECE_BYTES; room > 0; ) {
      if (this.#left.length === 0) {
        const shard = this.#order[this.#nextJob++];
        if (shard === undefined) return true;
        this.#left = this.#parts.get(shard)!.shift();
      }
      const length = Math.min(room, this.#left.length);
      if (length > 0) this.#host.appendPiece(this.#left, length, !this.#begun);
      this.#begun = true;
      this.#left = this.#left.subarray(length);
      room -= length;
    }
    return this.#left.length === 0 && this.#nextJob === this.#order.length;
  }
}
