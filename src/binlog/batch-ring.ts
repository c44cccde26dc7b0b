// Sends batches to the group's thread. If the ring has no room for a batch, it keeps the batch, and
// the log takes no more records until it is sent.

import { assert } from "../base/assert.ts";
import { LOG_BATCH_BYTES_MAX, LOG_BATCH_HEADER_BYTES } from "../message/log-batch.ts";
import { binlogGroup, ControlWord, groupBell, type Topology } from "../message/topology.ts";
import { BatchWord } from "../ring/batch-word.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { FULL, RingWriter } from "../ring/ring-writer.ts";
import type { BatchSink } from "./live/batch-chain.ts";

export class BatchRing implements BatchSink {
  readonly #ring: RingWriter;
  readonly #bell: Doorbell;
  readonly #word: BatchWord;
  readonly #message: BatchWord;
  readonly #kept: { bytes: Uint8Array; numbers: Float64Array }[] = [];
  #taken: number;

  /** The first batch follows batch `n`. */
  constructor(topology: Topology, n: number) {
    assert(n > 0, "a batch that others follow has a number");
    this.#ring = new RingWriter(binlogGroup(topology).ring);
    this.#bell = new Doorbell(new Int32Array(topology.doorbells), groupBell(topology));
    const words = new Int32Array(topology.control);
    this.#word = new BatchWord(words, ControlWord.AcknowledgedBatch);
    this.#message = new BatchWord(words, ControlWord.AcknowledgedMessage);
    this.#taken = n;
  }

  get hasRoom(): boolean {
    this.#sendKept();
    return this.#kept.length === 0 && this.#ring.hasRoom(this.#ring.messageBytesMax);
  }

  get acknowledged(): number {
    return this.#word.read(this.#taken);
  }

  get acknowledgedMessage(): number {
    return this.#message.lowBits;
  }

  /** Asks the group's thread to ring once there is room. */
  wantRoom(): void {
    if (!this.hasRoom) this.#ring.wantRoom();
  }

  take(bytes: Uint8Array, numbers: Float64Array): void {
    assert(
      bytes.length >= LOG_BATCH_HEADER_BYTES && bytes.length <= LOG_BATCH_BYTES_MAX,
      "a batch has at most the maximum size",
    );
    this.#taken++;
    if (this.#kept.length === 0 && this.#send(bytes, numbers)) return;
    this.#kept.push({ bytes: bytes.slice(), numbers: numbers.slice() });
  }

  #sendKept(): void {
    while (this.#kept.length > 0 && this.#send(this.#kept[0]!.bytes, this.#kept[0]!.numbers))
      this.#kept.shift();
  }

  #send(bytes: Uint8Array, numbers: Float64Array): boolean {
    assert(numbers.length > 0, "a batch has the numbers of all shards");
    const ring = this.#ring;
    const headBytes = 8 + 8 * numbers.length;
    const offset = ring.claim(headBytes + bytes.length);
    if (offset === FULL) return false;
    ring.uint32[(offset >> 2) + 1] = bytes.length;
    ring.float64.set(numbers, (offset >> 3) + 1);
    ring.bytes.set(bytes, offset + headBytes);
    ring.publish();
    this.#bell.ring();
    return true;
  }
}
