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
  STORED_HEADER_BYTES,
} from "../../message/response.ts";
import { FULL, RingWriter } from "../../ring/ring-writer.ts";

/** Bytes of bodies past the ring with which no further command is taken, nor a piece sent: a millisecond of copying. */
const STORED_BYTES_MAX = 4 * 1024 * 1024;

/** A part of a body that goes past the ring. */
export interface StoredPart {
  /** Handle of the body in the shard's arena. */
  readonly handle: number;
  readonly offset: number;
  readonly length: number;
  /** CR LF follows. */
  readonly isLast: boolean;
  /** Bytes that go before it. */
  readonly headBytes: number;
}

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
  /** Whether the acceptor lives in the thread of the shard, and may read its arena. */
  readonly isLocal: boolean;
  /** Bytes of bodies that were begun past the ring since it was last seen empty. */
  #storedBytes = 0;
  readonly #writer: ResponseWriter;
  /** Of the message that is begun; one for all. */
  readonly #header: ResponseHeader = { kind: 0, flags: 0, slot: 0, value: 0, pri: 0, recordNumber: 0 };
  readonly #overflow: Overflowed[] = [];

  constructor(ring: SharedArrayBuffer, isLocal = false) {
    this.isLocal = isLocal;
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
    return this.#overflow.length === 0 && this.ring.hasRoom(this.ring.messageBytesMax) && !this.storedIsFull;
  }

  /** Whether so much lies past the ring that the acceptor should send some of it first. */
  get storedIsFull(): boolean {
    if (this.#storedBytes < STORED_BYTES_MAX) return false;
    if (this.ring.used > 0) return true;
    this.#storedBytes = 0;
    return false;
  }

  /**
   * Begins bytes for a client, to be written at `at` of `target`. `recordNumber` counts if the flags say
   * Durable.
   */
  beginReply(
    flags: number,
    slot: number,
    payloadBytes: number,
    recordNumber: number,
    part?: StoredPart,
  ): void {
    this.#noteUrgency(flags, recordNumber);
    const header = this.#header;
    header.kind = part === undefined ? ResponseKind.Reply : ResponseKind.Stored;
    header.flags = flags;
    header.slot = slot;
    header.value = part === undefined ? 0 : part.handle;
    header.pri = part === undefined ? 0 : part.offset;
    header.recordNumber = recordNumber;
    this.#begin(payloadBytes);
  }

  /** Begins a part of the answer to the Control request `number`. */
  beginControl(flags: number, number: number, payloadBytes: number, recordNumber: number): void {
    this.#noteUrgency(flags, recordNumber);
    const header = this.#header;
    header.kind = ResponseKind.Control;
    header.flags = flags;
    header.slot = 0;
    header.value = number;
    header.pri = 0;
    header.recordNumber = recordNumber;
    this.#begin(payloadBytes);
  }

  #noteUrgency(flags: number, recordNumber: number): void {
    if ((flags & ResponseFlag.Durable) === 0) this.#urgent = true;
    else if (!this.#waits || ((recordNumber - this.#lowestRecord) | 0) < 0) {
      this.#waits = true;
      this.#lowestRecord = recordNumber;
    }
  }

  /** Begins bytes for a client with a part of a body: what goes before it is to be written at `at` of `target`. */
  beginStored(flags: number, slot: number, recordNumber: number, part: StoredPart): void {
    this.beginReply(flags, slot, STORED_HEADER_BYTES + part.headBytes, recordNumber, part);
    this.#storedBytes += part.length;
    writeUint32(this.target, this.at, part.length);
    writeUint32(this.target, this.at + 4, part.isLast ? 1 : 0);
    this.at += STORED_HEADER_BYTES;
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

  /** Begins an Ack at once; what the acceptor makes of it waits for the record if the flags say Durable. */
  beginAck(flags: number, slot: number, payloadBytes: number, value: number, recordNumber: number): void {
    this.#urgent = true;
    const header = this.#header;
    header.kind = ResponseKind.Ack;
    header.flags = flags;
    header.slot = slot;
    header.value = value;
    header.pri = 0;
    header.recordNumber = recordNumber;
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

  /**
   * Begins something for another shard, to be written at `at` of `target`: it is carried there when the record is written or, if
   * it is durable, as far in the log as replies wait for.
   */
  beginCarry(
    kind: number,
    to: number,
    number: number,
    payloadBytes: number,
    durable: boolean,
    recordNumber: number,
  ): void {
    this.#urgent = true;
    const header = this.#header;
    header.kind = ResponseKind.Carry;
    header.flags = durable ? ResponseFlag.Durable : 0;
    header.slot = kind;
    header.value = to;
    header.pri = number;
    header.recordNumber = recordNumber % 2 ** 32;
    this.#begin(payloadBytes);
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

function writeUint32(target: Uint8Array, at: number, value: number): void {
  target[at] = value;
  target[at + 1] = value >>> 8;
  target[at + 2] = value >>> 16;
  target[at + 3] = value >>> 24;
}
