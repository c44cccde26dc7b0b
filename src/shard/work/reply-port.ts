// The way from a shard to one acceptor: a ring, and behind it what found no room.
//
// Replies to commands always find room, because the shard takes no command before it has looked; only what
// comes unasked (a job for a waiting client, a timeout) can overflow, at most one reply for each waiting
// connection.

import {
  RESPONSE_HEADER_BYTES,
  ResponseFlag,
  type ResponseHeader,
  ResponseKind,
  ResponseWriter,
} from "../../message/response.ts";
import { FULL, RingWriter } from "../../ring/ring-writer.ts";

/** A message that found no room. */
interface Overflowed {
  readonly header: ResponseHeader;
  readonly payload: Uint8Array;
}

export class ReplyPort {
  readonly ring: RingWriter;
  /**
   * Where the payload of the message that was begun last goes: the ring's bytes, or those of a message that
   * has to wait.
   */
  target: Uint8Array;
  /** Offset of that payload in `target`. */
  at = 0;
  /** Whether something unpublished can be used by the acceptor at once. */
  #urgent = false;
  /** The lowest record number that an unpublished reply waits for; meaningful where one waits. */
  #lowestRecord = 0;
  #waits = false;
  readonly #writer: ResponseWriter;
  /** Of the message that is begun; one for all. */
  readonly #header: ResponseHeader = { kind: 0, flags: 0, slot: 0, value: 0, pri: 0, recordNumber: 0 };
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

  /**
   * Begins bytes for a client, to be written at `at` of `target`. `recordNumber` counts if the flags say
   * Durable.
   */
  beginReply(flags: number, slot: number, payloadBytes: number, recordNumber: number): void {
    if ((flags & ResponseFlag.Durable) === 0) this.#urgent = true;
    else if (!this.#waits || ((recordNumber - this.#lowestRecord) | 0) < 0) {
      this.#waits = true;
      this.#lowestRecord = recordNumber;
    }
    const header = this.#header;
    header.kind = ResponseKind.Reply;
    header.flags = flags;
    header.slot = slot;
    header.value = 0;
    header.pri = 0;
    header.recordNumber = recordNumber;
    this.#begin(payloadBytes);
  }

  /** Begins a message to the acceptor itself, to be written at `at` of `target`; it waits for no record. */
  beginSignal(kind: number, flags: number, slot: number, payloadBytes: number, value = 0, pri = 0): void {
    this.#urgent = true;
    const header = this.#header;
    header.kind = kind;
    header.flags = flags;
    header.slot = slot;
    header.value = value;
    header.pri = pri;
    header.recordNumber = 0;
    this.#begin(payloadBytes);
  }

  /** Begins a message with the present header: in the ring, or behind what found no room there. */
  #begin(payloadBytes: number): void {
    if (this.#overflow.length === 0) {
      const at = this.#writer.write(this.#header, payloadBytes);
      if (at !== FULL) {
        this.target = this.ring.bytes;
        this.at = at;
        return;
      }
    }
    const payload = new Uint8Array(payloadBytes);
    this.#overflow.push({ header: { ...this.#header }, payload });
    this.target = payload;
    this.at = 0;
  }

  /** Moves what overflowed into the ring, in order, as far as there is room. */
  drainOverflow(): void {
    let moved = 0;
    for (const { header, payload } of this.#overflow) {
      const at = this.#writer.write(header, payload.length);
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
   * Makes what was written visible. Returns whether the acceptor must be rung for it: not if every reply
   * waits for a record that the binlog has not been shown yet, since the binlog rings all acceptors when it
   * has written what it is shown next. So replies are published before their records: the other way round the
   * binlog could be done in between, and its ring would find nothing. `shownRecord` is the number of the last
   * record published.
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
