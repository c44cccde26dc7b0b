// The way from a shard to one acceptor: a ring, and behind it what found no room.
//
// Replies to commands always find room, because the shard takes no command before it has looked; only what comes
// unasked (a job for a waiting client, a timeout) can overflow, at most one reply for each waiting connection.

import { RESPONSE_HEADER_BYTES, ResponseFlag, ResponseWriter } from "../message/response.ts";
import { FULL, RingWriter } from "../ring/ring-writer.ts";

interface Overflowed {
  readonly kind: number;
  readonly flags: number;
  readonly slot: number;
  readonly value: number;
  readonly pri: number;
  readonly recordNumber: number;
  readonly payload: Uint8Array;
}

export class ReplyPort {
  readonly ring: RingWriter;
  /** Where the payload of the last `begin` goes: the ring's bytes, or those of a message that has to wait. */
  target: Uint8Array;
  /** Offset of that payload in `target`. */
  at = 0;
  /** Whether something unpublished can be used by the acceptor at once. */
  #urgent = false;
  /** The lowest record number that an unpublished reply waits for; meaningful where one waits. */
  #lowestRecord = 0;
  #waits = false;
  readonly #writer: ResponseWriter;
  readonly #overflow: Overflowed[] = [];

  constructor(ring: SharedArrayBuffer) {
    this.ring = new RingWriter(ring);
    this.#writer = new ResponseWriter(this.ring);
    this.target = this.ring.bytes;
  }

  /** The largest payload of one message. */
  get payloadBytesMax(): number {
    return this.ring.messageBytesMax - RESPONSE_HEADER_BYTES;
  }

  /** Whether any reply to one more command is sure to find room. */
  get open(): boolean {
    return this.#overflow.length === 0 && this.ring.hasRoom(this.ring.messageBytesMax);
  }

  /** Begins a message of `payloadBytes`, to be written at `at` of `target`. */
  begin(
    kind: number,
    flags: number,
    slot: number,
    payloadBytes: number,
    value: number,
    pri: number,
    recordNumber: number,
  ): void {
    if ((flags & ResponseFlag.Durable) === 0) this.#urgent = true;
    else if (!this.#waits || ((recordNumber - this.#lowestRecord) | 0) < 0) {
      this.#waits = true;
      this.#lowestRecord = recordNumber;
    }
    if (this.#overflow.length === 0) {
      const at = this.#writer.write(kind, flags, slot, payloadBytes, value, pri, recordNumber);
      if (at !== FULL) {
        this.target = this.ring.bytes;
        this.at = at;
        return;
      }
    }
    const payload = new Uint8Array(payloadBytes);
    this.#overflow.push({ kind, flags, slot, value, pri, recordNumber, payload });
    this.target = payload;
    this.at = 0;
  }

  /** Moves what overflowed into the ring, in order, as far as there is room. */
  drainOverflow(): void {
    let moved = 0;
    for (const message of this.#overflow) {
      const { kind, flags, slot, value, pri, recordNumber, payload } = message;
      const at = this.#writer.write(kind, flags, slot, payload.length, value, pri, recordNumber);
      if (at === FULL) break;
      this.ring.bytes.set(payload, at);
      moved++;
    }
    if (moved === 0) return;
    this.#overflow.splice(0, moved);
    // What they wait for may have been told long ago.
    this.#urgent = true;
  }

  /**
   * Makes what was written visible. Returns whether the acceptor must be rung for it: not if every reply waits for a record
   * that the binlog has not been shown yet, since the binlog rings all acceptors when it has written what it is shown next.
   * So replies are published before their records: the other way round the binlog could be done in between, and its ring
   * would find nothing. `shownRecord` is the number of the last record published.
   */
  publish(shownRecord: number): boolean {
    if (!this.ring.publish()) return false;
    const rings = this.#urgent || !this.#waits || ((this.#lowestRecord - shownRecord) | 0) <= 0;
    this.#urgent = false;
    this.#waits = false;
    return rings;
  }

  /** Whether something overflowed and still waits for room. */
  get blocked(): boolean {
    return this.#overflow.length > 0;
  }
}
