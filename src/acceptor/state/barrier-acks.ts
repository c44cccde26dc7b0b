// Acknowledges the read barriers of shards, once this acceptor has read its sockets: see
// shard/read-barrier.ts.

import { assert } from "../../base/assert.ts";
import { BarrierAckView, RequestOp } from "../../message/request.ts";
import type { ShardLinks } from "./shard-links.ts";

/** Reads before an acknowledgement: the end of a stream may be read one pass after its bytes. */
const READINGS_PER_BARRIER = 2;

interface Barrier {
  readonly shard: number;
  readonly number: number;
  readingsLeft: number;
}

export class BarrierAcks {
  /** Whether barriers are in progress. */
  hasWork = false;
  readonly #links: ShardLinks;
  #barriers: Barrier[] = [];

  constructor(links: ShardLinks) {
    this.#links = links;
  }

  /** Takes a barrier. `haveRead` means that the acceptor has read its sockets for it already. */
  take(shard: number, number: number, haveRead: boolean): void {
    if (haveRead) {
      this.#acknowledge(shard, number);
      return;
    }
    this.#barriers.push({ shard, number, readingsLeft: READINGS_PER_BARRIER });
    this.hasWork = true;
  }

  /**
   * Notes that this acceptor has read its sockets. After two reads it acknowledges a barrier,
   * behind the Closes that they caused. Called only while barriers are in progress.
   */
  haveRead(): void {
    assert(this.hasWork, "only barriers in progress are counted down");
    for (const barrier of this.#barriers) {
      if (--barrier.readingsLeft === 0) this.#acknowledge(barrier.shard, barrier.number);
    }
    this.#barriers = this.#barriers.filter(({ readingsLeft }) => readingsLeft > 0);
    this.hasWork = this.#barriers.length > 0;
  }

  #acknowledge(shard: number, number: number): void {
    const ack = this.#links.message(RequestOp.BarrierAck);
    BarrierAckView.fill(ack, number);
    this.#links.post(shard, ack);
  }
}
