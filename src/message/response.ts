// Messages from a shard to an acceptor, as bytes in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint8    kind
//   offset  6  uint16   flags
//   offset  8  int32    connection slot at the acceptor
//   offset 12  uint32   payload bytes
//   offset 16  float64  value    named by the view of the kind
//   offset 24  uint32   word     named by the view of the kind
//   offset 28  uint32   number of the shard's last log record that the reply depends on (wraps)
//   offset 32  payload         bytes for the client; of a signal the soonest deadline, as float64

import { assert, CHECKED } from "../base/assert.ts";
import { asciiBytes, latin1 } from "../base/bytes.ts";
import type { Request, Span } from "../protocol/request.ts";
import { FULL, type MessageSource, RingWriter } from "../ring/ring.ts";

// Flow control of replies: limits how far a shard may be ahead of what a client has read, so that
// small commands cannot pile up large replies.
//
// The shard counts the bytes that it sends. With each command, the acceptor reports how many of
// them the client has read, and it sends a Credit message if there is no command. While
// UnreadBytesMax or more are unread, the shard starts no further command of the connection. Bytes
// count as read when the transport has passed them to the kernel.
//
// There is no deadlock: the acceptor sends Credit when everything has been read and StepBytes or
// more are unreported. So either the shard knows of all but StepBytes of the bytes that it sent,
// which is less than UnreadBytesMax, or Credit comes.

const KIB = 1024;

export const ReplyCredit = {
  /**
   * Unread reply bytes at which the next command waits in the shard. The last reply may exceed it.
   */
  UnreadBytesMax: 32 * KIB,
  /** The same limit while a reply longer than WholeReplyBytesMax is sent in pieces. */
  LongUnreadBytesMax: 128 * KIB,
  /** Longer replies go in pieces, as the client reads. */
  WholeReplyBytesMax: 128 * KIB,
  /** Bytes read that are reported without a command. */
  StepBytes: 16 * KIB,
} as const;

// A shard's results for a delete-batch, one byte for each id, and how it redirects a batch whose
// jobs are not all on it.

export const Deleted = {
  /** There is no such job here, or it may not be deleted. */
  No: 0,
  Yes: 1,
  /** It is not here and may be on another shard. */
  Elsewhere: 2,
} as const;

/**
 * Packs the part of a Redirected message after its header: the shard's last record as uint32, the
 * number of results as uint32, the results, and the ids as the client sent them, separated by
 * spaces.
 */
export function packDeleted(results: Uint8Array, ids: string, recordNumber: number): Uint8Array {
  const packed = new Uint8Array(DELETED_HEADER_BYTES + results.length + ids.length);
  const view = new DataView(packed.buffer);
  view.setUint32(0, recordNumber, true);
  view.setUint32(4, results.length, true);
  packed.set(results, DELETED_HEADER_BYTES);
  packed.set(asciiBytes(ids), DELETED_HEADER_BYTES + results.length);
  return packed;
}

export const DELETED_HEADER_BYTES = 8;

// A shard's part of a list of jobs over all shards, as bytes for the acceptor that merges the
// parts.
//
//   float64  next   all ids up to this one are done; 0: all jobs are
//   for each job, smallest id first: float64 id, uint32 length, its line as ASCII

const HEAD_BYTES = 8;
const ENTRY_HEAD_BYTES = 12;

export interface ListedJob {
  readonly id: number;
  /** ASCII. */
  readonly line: string;
}

export function packListedJobs(next: number, jobs: readonly ListedJob[]): Uint8Array {
  const lineBytes = jobs.reduce((sum, { line }) => sum + line.length, 0);
  const bytes = new Uint8Array(HEAD_BYTES + jobs.length * ENTRY_HEAD_BYTES + lineBytes);
  const view = new DataView(bytes.buffer);
  view.setFloat64(0, next, true);
  let at = HEAD_BYTES;
  for (const { id, line } of jobs) {
    view.setFloat64(at, id, true);
    view.setUint32(at + 8, line.length, true);
    at += ENTRY_HEAD_BYTES;
    for (let i = 0; i < line.length; i++) bytes[at++] = line.charCodeAt(i);
  }
  return bytes;
}

/** Reads such a part, job by job. */
export class ListedJobsReader {
  /** All ids up to this one are done; 0 means that all jobs are. */
  readonly next: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = HEAD_BYTES;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.next = this.#view.getFloat64(0, true);
  }

  /** The id of the current job; Infinity after the last. */
  get id(): number {
    return this.#at === this.#bytes.length ? Number.POSITIVE_INFINITY : this.#view.getFloat64(this.#at, true);
  }

  /** Its row, valid as long as the bytes. */
  get line(): Uint8Array {
    const start = this.#at + ENTRY_HEAD_BYTES;
    return this.#bytes.subarray(start, start + this.#view.getUint32(this.#at + 8, true));
  }

  /** Advances to the next job. */
  shift(): void {
    this.#at += ENTRY_HEAD_BYTES + this.line.length;
  }
}

export const ResponseKind = {
  /** Bytes for the client. */
  Reply: 1,
  /** A job that could be taken: see CandidateView. */
  Candidate: 2,
  /** No such job, or no job, is here. */
  Absent: 3,
  /** Done, with nothing to tell the client. */
  Ack: 4,
  /** The connection is forgotten. Its slot may be reused once all shards have sent this. */
  Closed: 5,
  /** A wait may have to end: see WaitDueView. */
  WaitDue: 6,
  /** Part of a list of tubes: entries of float64 sequence, uint8 length, name. */
  Tubes: 7,
  /**
   * Read your sockets, then answer with BarrierAck. With flag HaveRead, answer at once. Belongs to
   * no connection. See BarrierView.
   */
  Barrier: 8,
  /**
   * Bytes for the client, including part of a body in the shard's arena. Only between roles of one
   * thread. The body is pinned until this message is taken. The payload has the length of the part
   * as uint32, 1 as uint32 if CR LF follows it (otherwise 0), and the bytes that precede it. See
   * StoredView.
   */
  Stored: 9,
  /**
   * Answer to a Control request. The flag More means that another part follows. If it is Durable,
   * it waits for its record. Belongs to no connection. See AnswerView.
   */
  Control: 10,
  /** The session is kept under the number of its move. No further message for this slot follows. */
  Detached: 20,
  /**
   * Jobs that could be taken for a batch, best first. After the soonest deadline, each has its id
   * as float64, its pri as uint32, and the size of its body as uint32, plus CANDIDATE_LOST if it
   * was lost before. See CandidatesView.
   */
  Candidates: 21,
  /**
   * Jobs taken for a batch: the size of each requested job as uint32, 0 if it was not taken, then
   * the bytes of all of them for the client. Or jobs of a list over all shards: see response.ts.
   * The flag More means that another part follows.
   */
  Gathered: 22,
  /**
   * The job of the command is on another shard, or unknown: find it, send the command there, then
   * send GoOn. The connection's next commands wait until then. After the soonest deadline come the
   * op and the length of the options as one uint32, the delay in seconds as another, the options,
   * and further bytes that depend on the op. See RedirectedView.
   */
  Redirected: 23,
  /**
   * A message to another shard: see message/transfer.ts. It is relayed once the sender's record
   * with this number is written or, if it is Durable, as far in the log as replies require. Belongs
   * to no connection. See CarryView.
   */
  Carry: 24,
  /**
   * For the audit: the settings that a pattern had before a set-tube, as text after the soonest
   * deadline. Comes before the reply. See ReplacedView.
   */
  Replaced: 25,
} as const;

export const ResponseFlag = {
  /** More of this reply follows in another message. */
  More: 1,
  /** The connection holds a job on this shard. */
  HoldsJob: 2,
  /** The reply gives the connection a job by reserve-job, so it counts as a worker. */
  Worker: 4,
  /**
   * The reply must not leave before the record with its number is as far in the log as `-f`
   * requires: written or synced.
   */
  Durable: 8,
  /**
   * The acceptor has already read its sockets for this barrier: its answer only shows that it took
   * the earlier messages of this ring.
   */
  HaveRead: 16,
} as const;

/** Bytes of the soonest deadline, with which the payload of a signal begins. */
const DEADLINE_BYTES = 8;
/** Bytes of an entry of Candidates. */
export const CANDIDATE_BYTES = 16;
/** In the size field of such an entry: the job has to travel alone. */
export const CANDIDATE_LOST = 0x80000000;

/** Bytes of a Redirected message before the options. */
export const REDIRECTED_HEADER_BYTES = 16;

/** Bytes of a Stored message before those that precede the body part. */
export const STORED_HEADER_BYTES = 8;

export const RESPONSE_HEADER_BYTES = 32;

// --- views: the words of a response by the names that they have in its kind ---

/** A signal to the acceptor, as it is read. */
interface SignalWords {
  readonly value: number;
  readonly pri: number;
}

/** Candidate. */
export const CandidateView = {
  id: ({ value }: SignalWords): number => value,
  pri: ({ pri }: SignalWords): number => pri,
};

/** WaitDue. */
export const WaitDueView = { waitNumber: ({ value }: SignalWords): number => value };

/** Candidates. */
export const CandidatesView = {
  word: (isCut: boolean, ready: number): number => Number(isCut) + ready * 2,
  /** Whether there are more than fit in the message. */
  isCut: ({ pri }: SignalWords): boolean => pri % 2 !== 0,
  /** The number of ready jobs, if the request asks for it. */
  ready: ({ pri }: SignalWords): number => pri >>> 1,
  /** When a batch that fills here has waited long enough after its first job; or Infinity. */
  lingerEndsAtMs: ({ value }: SignalWords): number => value,
  /** Writes the entry at `at`. `isLost` means that the job was lost before. */
  write(view: DataView, at: number, id: number, pri: number, bodyBytes: number, isLost: boolean): void {
    view.setFloat64(at, id, true);
    view.setUint32(at + 8, pri, true);
    view.setUint32(at + 12, bodyBytes + (isLost ? CANDIDATE_LOST : 0), true);
  },
  id: (view: DataView, at: number): number => view.getFloat64(at, true),
  pri: (view: DataView, at: number): number => view.getUint32(at + 8, true),
  bodyBytes: (view: DataView, at: number): number => view.getUint32(at + 12, true) % CANDIDATE_LOST,
  isLost: (view: DataView, at: number): boolean => view.getUint32(at + 12, true) >= CANDIDATE_LOST,
};

/** The Ack of a touch-all. */
export const TouchedView = { jobs: ({ value }: SignalWords): number => value };

/** Redirected: the arguments of the command. */
export const RedirectedView = {
  id: ({ value }: SignalWords): number => value,
  pri: ({ pri }: SignalWords): number => pri,
};

/** Replaced. */
export const ReplacedView = {
  bytes: (settings: string): number => DEADLINE_BYTES + settings.length,
  write(target: Uint8Array, at: number, soonestMs: number, settings: string): void {
    new DataView(target.buffer, target.byteOffset + at).setFloat64(0, soonestMs, true);
    target.set(asciiBytes(settings), at + DEADLINE_BYTES);
  },
  settings: ({ bytes, start, length }: Span): string => latin1(bytes, start + DEADLINE_BYTES, start + length),
};

/** Barrier. */
export const BarrierView = { barrier: valueAt };

/** Stored: the body, and where the part begins in it. */
export const StoredView = { handle: valueAt, offset: wordAt };

/** Control: the number of the question. */
export const AnswerView = { question: valueAt };

/** Carry: a message to another shard. */
export const CarryView = {
  toShard: valueAt,
  transferMessage: (ring: MessageSource, offset: number): number => ring.uint32[(offset >> 2) + 2]!,
  transfer: wordAt,
};

function valueAt(ring: MessageSource, offset: number): number {
  return ring.float64[(offset >> 3) + 2]!;
}

function wordAt(ring: MessageSource, offset: number): number {
  return ring.uint32[(offset >> 2) + 6]!;
}

// The channel from a shard to one acceptor: a ring, and a queue of messages that found it full.
//
// Replies to commands always find room, because the shard checks for room before it takes a
// command. Only unrequested messages (a job for a waiting client, a timeout) can overflow: at most
// one reply per waiting connection.

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

/** A message that found no room: its header, and its payload. */
interface Overflowed {
  readonly header: readonly [kind: number, slot: number, value: number, word: number, record: number];
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
  readonly #overflow: Overflowed[] = [];
  /** Whether a message that found no room still waits. */
  blocked = false;

  constructor(ring: SharedArrayBuffer, isLocal = false) {
    this.isLocal = isLocal;
    this.ring = new RingWriter(ring);
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
   * Begins bytes for the client, which the caller writes at `at` of `target`. `record` is used if
   * the flags include Durable.
   */
  beginReply(flags: number, slot: number, payloadBytes: number, record: number): void {
    if ((flags & ResponseFlag.Durable) === 0) this.#urgent = true;
    else if (!this.#waits || ((record - this.#lowestRecord) | 0) < 0) {
      this.#waits = true;
      this.#lowestRecord = record;
    }
    this.#begin(ResponseKind.Reply | (flags << 16), slot, 0, 0, record, payloadBytes);
  }

  /** Begins a part of the answer to a Control request. */
  beginControl(flags: number, question: number, payloadBytes: number, record: number): void {
    assert(payloadBytes <= this.payloadBytesMax, "a part of an answer fits into the ring");
    this.#urgent = true;
    this.#begin(ResponseKind.Control | (flags << 16), 0, question, 0, record, payloadBytes);
  }

  /**
   * Begins a reply with part of a body. The caller writes the preceding bytes at `at` of `target`.
   */
  beginStored(flags: number, slot: number, record: number, part: StoredPart): void {
    assert(this.isLocal, "only an acceptor in this thread gets parts of bodies");
    assert(part.offset >= 0 && part.length >= 0, "a part of a body has a valid offset and length");
    const bytes = STORED_HEADER_BYTES + part.headBytes;
    this.#urgent = true;
    this.#begin(ResponseKind.Stored | (flags << 16), slot, part.handle, part.offset, record, bytes);
    assert(this.at + bytes <= this.target.length, "a stored part lies in its message");
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
    this.#begin(kind | (flags << 16), slot, value, word, 0, payloadBytes);
  }

  /**
   * Begins an Ack, which leaves at once. The acceptor's reply waits for the record if the flags
   * include Durable.
   */
  beginAck(flags: number, slot: number, payloadBytes: number, value: number, record: number): void {
    this.#urgent = true;
    this.#begin(ResponseKind.Ack | (flags << 16), slot, value, 0, record, payloadBytes);
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
    record: number,
  ): void {
    assert(toShard >= 0 && transfer >= 0, "a message to another shard has an address");
    this.#urgent = true;
    const flags = durable ? ResponseFlag.Durable : 0;
    const kind = ResponseKind.Carry | (flags << 16);
    this.#begin(kind, transferMessage, toShard, transfer, record % 2 ** 32, payloadBytes);
  }

  /**
   * Begins a message: in the ring, or queued after the messages that found no room. `kind` has the
   * flags in its upper half.
   */
  // put 10/18
  #begin(
    kind: number,
    slot: number,
    value: number,
    word: number,
    record: number,
    payloadBytes: number,
  ): void {
    const { ring } = this;
    const offset = this.blocked ? FULL : ring.claim(RESPONSE_HEADER_BYTES + payloadBytes);
    if (offset === FULL) {
      assert(payloadBytes <= this.payloadBytesMax, "a message that waits for room fits eventually");
      const payload = new Uint8Array(payloadBytes);
      this.#overflow.push({ header: [kind, slot, value, word, record], payload });
      this.blocked = true;
      this.target = payload;
      this.at = 0;
      return;
    }
    const at = offset >> 2;
    ring.int32[at + 1] = kind;
    ring.int32[at + 2] = slot;
    ring.uint32[at + 3] = payloadBytes;
    ring.float64[(offset >> 3) + 2] = value;
    ring.uint32[at + 6] = word;
    ring.uint32[at + 7] = record;
    this.target = ring.bytes;
    this.at = offset + RESPONSE_HEADER_BYTES;
  }

  /** Moves queued messages into the ring, in order, as far as there is room. */
  drainOverflow(): void {
    const { ring } = this;
    let moved = 0;
    this.blocked = false;
    for (const { header, payload } of this.#overflow) {
      if (!ring.hasRoom(RESPONSE_HEADER_BYTES + payload.length)) break;
      this.#begin(...header, payload.length);
      ring.bytes.set(payload, this.at);
      moved++;
    }
    assert(moved <= this.#overflow.length, "only queued messages are moved");
    this.#overflow.splice(0, moved);
    this.blocked = this.#overflow.length > 0;
    // Their records may have been reported long ago.
    if (moved > 0) this.#urgent = true;
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

// The fields that acceptors and shards exchange for a connection that picks its jobs by weight: see
// engine/state/tube-turns.ts.
//
// Requests that make or end a choice have the floor in `timeoutMs`, and Take the place of the
// second-best candidate in `atMs`. In a Candidate, Absent or Candidates, two float64 follow the
// soonest deadline: the floor of the shard, and the earliest turn of its tubes with a job. A
// Candidate then has its place in the order. In Candidates, the place of each job follows its
// entry.

/** Offsets in the payload of a Candidate, and where the list of Candidates begins. */
const FLOOR_AT = 8;
const EARLIEST_AT = 16;
const PLACE_AT = 24;
export const TURNS_LIST_AT = 24;
/** Bytes of a Candidate's payload, and of an entry of Candidates. */
export const TURNS_CANDIDATE_BYTES = 32;
export const TURNS_ENTRY_BYTES: number = CANDIDATE_BYTES + 8;

/** Collect, Take, CollectBatch, TakeBatch and WaitShared. */
export const FloorView = {
  fill(message: Request, floor: number): void {
    message.timeoutMs = floor;
  },
  floor: ({ timeoutMs }: Request): number => timeoutMs,
};

/** Take. */
export const PlaceView = {
  fill(message: Request, place: number): void {
    message.atMs = place;
  },
  place: ({ atMs }: Request): number => atMs,
};

/** The payload of an answer. */
export const TurnsView = {
  write(view: DataView, floor: number, earliest: number): void {
    view.setFloat64(FLOOR_AT, floor, true);
    view.setFloat64(EARLIEST_AT, earliest, true);
  },
  writePlace(view: DataView, place: number): void {
    view.setFloat64(PLACE_AT, place, true);
  },
  floor: (payload: Span): number => at(payload, FLOOR_AT),
  earliest: (payload: Span): number => at(payload, EARLIEST_AT),
  place: (payload: Span): number => at(payload, PLACE_AT),
  writeEntryPlace(view: DataView, entryAt: number, place: number): void {
    view.setFloat64(entryAt + CANDIDATE_BYTES, place, true);
  },
  entryPlace: (view: DataView, entryAt: number): number => view.getFloat64(entryAt + CANDIDATE_BYTES, true),
};

function at({ bytes, start }: Span, offset: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset + start + offset).getFloat64(0, true);
}
