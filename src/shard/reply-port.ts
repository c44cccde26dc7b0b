// The way from a shard to one acceptor: a ring, and behind it what found no room.
//
// Replies to commands always find room, because the shard takes no command before it has looked; only what comes
// unasked (a job for a waiting client, a timeout) can overflow, at most one reply for each waiting connection.

import { RESPONSE_HEADER_BYTES, ResponseWriter } from "../message/response.ts";
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
    if (moved > 0) this.#overflow.splice(0, moved);
  }

  /** Whether something overflowed and still waits for room. */
  get blocked(): boolean {
    return this.#overflow.length > 0;
  }
}
