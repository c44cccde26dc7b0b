// The channel from a shard to one acceptor: a ring, and a queue of messages that found it full.
//
// Replies to commands always find room, because the shard checks for room before it takes a
// command. Only unrequested messages (a job for a waiting client, a timeout) can overflow: at most
// one reply per waiting connection.

import { assert, CHECKED } from "../../base/assert.ts";
import {
  AnswerView,
  CarryView,
  RESPONSE_HEADER_BYTES,
  ResponseFlag,
  type ResponseHeader,
  ResponseKind,
  ResponseWriter,
  STORED_HEADER_BYTES,
  StoredView,
} from "../../message/response.ts";
import { FULL, RingWriter } from "../../ring/ring.ts";

/**
 * Bytes of bodies outside the ring beyond which no command is taken and no piece sent: a
 * millisecond of copying.
 */
const STORED_BYTES_MAX = 4 * 1024 * 1024;

/** Part of a body that does not go through the ring. */
export interface StoredPart {
  /** Handle of the body in the shard's arena. */
  readonly handle: number;
  readonly offset: number;
  readonly length: number;
  /** Whether CR LF follows. */
  readonly isLast: boolean;
  /** Bytes in the ring that precede it. */
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
   * Destination of the current message's payload: the ring, or the buffer of a message that has to
   * wait.
   */
  target: Uint8Array;
  /** Offset of that payload in `target`. */
  at = 0;
  /** Whether the acceptor can use an unpublished message immediately. */
  #urgent = false;
  /** The lowest record number that an unpublished reply waits for. Valid only if one waits. */
  #lowestRecord = 0;
  #waits = false;
  /** Whether the acceptor runs in the shard's thread and may read its arena. */
  readonly isLocal: boolean;
  /** Bytes of bodies begun outside the ring since the ring was last seen empty. */
  #storedBytes = 0;
  readonly #writer: ResponseWriter;
  /** The header of the current message; reused. */
  readonly #header: ResponseHeader = { kind: 0, flags: 0, slot: 0, value: 0, word: 0, recordNumber: 0 };
  readonly #overflow: Overflowed[] = [];
  /** Whether a message that found no room still waits. */
  blocked = false;

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
    if (this.blocked || !this.ring.hasRoom(this.ring.messageBytesMax)) return false;
    return this.#storedBytes < STORED_BYTES_MAX || !this.storedIsFull;
  }

  /** Whether so many body bytes are outside the ring that the acceptor should send some first. */
  get storedIsFull(): boolean {
    if (CHECKED) assert(this.#storedBytes >= 0, "bytes outside the ring are counted");
    if (this.#storedBytes < STORED_BYTES_MAX) return false;
    if (this.ring.used > 0) return true;
    this.#storedBytes = 0;
    return false;
  }

  /**
   * Begins a reply whose bytes the caller writes at `at` of `target`. `recordNumber` is used if the
   * flags include Durable.
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
    header.value = 0;
    header.word = 0;
    if (part !== undefined) StoredView.fill(header, part.handle, part.offset);
    header.recordNumber = recordNumber;
    this.#begin(payloadBytes);
  }

  /** Begins a part of the answer to a Control request. */
  beginControl(flags: number, question: number, payloadBytes: number, recordNumber: number): void {
    assert(payloadBytes <= this.payloadBytesMax, "a part of an answer fits into the ring");
    this.#noteUrgency(flags, recordNumber);
    const header = this.#header;
    header.kind = ResponseKind.Control;
    header.flags = flags;
    AnswerView.fill(header, question);
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

  /**
   * Begins a reply with part of a body. The caller writes the preceding bytes at `at` of `target`.
   */
  beginStored(flags: number, slot: number, recordNumber: number, part: StoredPart): void {
    assert(this.isLocal, "only an acceptor in this thread gets parts of bodies");
    assert(part.offset >= 0 && part.length >= 0, "a part of a body has a valid offset and length");
    this.beginReply(flags, slot, STORED_HEADER_BYTES + part.headBytes, recordNumber, part);
    assert(
      this.at + STORED_HEADER_BYTES + part.headBytes <= this.target.length,
      "a stored part lies in its message",
    );
    this.#storedBytes += part.length;
    writeUint32(this.target, this.at, part.length);
    writeUint32(this.target, this.at + 4, part.isLast ? 1 : 0);
    this.at += STORED_HEADER_BYTES;
  }

  /**
   * Begins a message to the acceptor itself, which the caller writes at `at` of `target`. It waits
   * for no record. The view of the kind defines `value` and `word`.
   */
  beginSignal(kind: number, flags: number, slot: number, payloadBytes: number, value = 0, word = 0): void {
    this.#urgent = true;
    const header = this.#header;
    header.kind = kind;
    header.flags = flags;
    header.slot = slot;
    header.value = value;
    header.word = word;
    header.recordNumber = 0;
    this.#begin(payloadBytes);
    assert(payloadBytes <= this.payloadBytesMax, "a message fits into the ring");
  }

  /**
   * Begins an Ack, which leaves at once. The acceptor's reply waits for the record if the flags
   * include Durable.
   */
  beginAck(flags: number, slot: number, payloadBytes: number, value: number, recordNumber: number): void {
    this.#urgent = true;
    const header = this.#header;
    header.kind = ResponseKind.Ack;
    header.flags = flags;
    header.slot = slot;
    header.value = value;
    header.word = 0;
    header.recordNumber = recordNumber;
    this.#begin(payloadBytes);
  }

  /**
   * Begins a message with the current header: in the ring, or queued after the messages that found
   * no room.
   */
  #begin(payloadBytes: number): void {
    if (!this.blocked) {
      const at = this.#writer.write(this.#header, payloadBytes);
      if (at !== FULL) {
        this.target = this.ring.bytes;
        this.at = at;
        return;
      }
    }
    assert(payloadBytes <= this.payloadBytesMax, "a message that waits for room fits eventually");
    const payload = new Uint8Array(payloadBytes);
    this.#overflow.push({ header: { ...this.#header }, payload });
    this.blocked = true;
    this.target = payload;
    this.at = 0;
  }

  /**
   * Begins a message to another shard, which the caller writes at `at` of `target`. The acceptor
   * relays it when the record is written or, if `durable` is set, as far in the log as replies
   * require.
   */
  beginCarry(
    transferMessage: number,
    toShard: number,
    transfer: number,
    payloadBytes: number,
    durable: boolean,
    recordNumber: number,
  ): void {
    assert(toShard >= 0 && transfer >= 0, "a message to another shard has an address");
    this.#urgent = true;
    const header = this.#header;
    header.kind = ResponseKind.Carry;
    header.flags = durable ? ResponseFlag.Durable : 0;
    CarryView.fill(header, toShard, transferMessage, transfer);
    header.recordNumber = recordNumber % 2 ** 32;
    this.#begin(payloadBytes);
  }

  /** Moves queued messages into the ring, in order, as far as there is room. */
  drainOverflow(): void {
    let moved = 0;
    for (const { header, payload } of this.#overflow) {
      const at = this.#writer.write(header, payload.length);
      if (at === FULL) break;
      this.ring.bytes.set(payload, at);
      moved++;
    }
    if (moved === 0) return;
    assert(moved <= this.#overflow.length, "only queued messages are moved");
    this.#overflow.splice(0, moved);
    this.blocked = this.#overflow.length > 0;
    // Their records may have been reported long ago.
    this.#urgent = true;
  }

  /**
   * Makes written messages visible. Returns whether to ring the acceptor. It need not be rung if
   * every reply waits for a record that the binlog has not seen yet: once the binlog has written
   * those records, it rings all acceptors. So replies have to be published before their records.
   * Otherwise the binlog could finish in between, and its ring would come too early. `shownRecord`
   * is the number of the last record published.
   */
  publish(shownRecord: number): boolean {
    if (!this.ring.publish()) return false;
    const rings = this.#urgent || !this.#waits || ((this.#lowestRecord - shownRecord) | 0) <= 0;
    this.#urgent = false;
    this.#waits = false;
    return rings;
  }
}

function writeUint32(target: Uint8Array, at: number, value: number): void {
  target[at] = value;
  target[at + 1] = value >>> 8;
  target[at + 2] = value >>> 16;
  target[at + 3] = value >>> 24;
}
