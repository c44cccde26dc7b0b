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

import type { MessageSource } from "../ring/message-source.ts";
import { FULL, type RingWriter } from "../ring/ring-writer.ts";

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
   * the bytes of all of them for the client. Or jobs of a list over all shards: see listed-jobs.ts.
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

/** Bytes of an entry of Candidates. */
export const CANDIDATE_BYTES = 16;
/** In the size field of such an entry: the job has to travel alone. */
export const CANDIDATE_LOST = 0x80000000;

/** Bytes of a Redirected message before the options. */
export const REDIRECTED_HEADER_BYTES = 16;

/** Bytes of a Stored message before those that precede the body part. */
export const STORED_HEADER_BYTES = 8;

export const RESPONSE_HEADER_BYTES = 32;

/** The header of a response. It is mutable, so that a writer can reuse one object. */
export interface ResponseHeader {
  kind: number;
  flags: number;
  slot: number;
  /** A float64 and a uint32 that the view of the kind names. */
  value: number;
  word: number;
  recordNumber: number;
}

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
  /** Whether there are more than fit in the message. */
  isCut: ({ value }: SignalWords): boolean => value !== 0,
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

/** Barrier. */
export const BarrierView = { barrier: valueAt };

/** Stored: the body, and where the part begins in it. */
export const StoredView = {
  fill(header: ResponseHeader, handle: number, offset: number): void {
    header.value = handle;
    header.word = offset;
  },
  handle: valueAt,
  offset: wordAt,
};

/** Control: the number of the question. */
export const AnswerView = {
  fill(header: ResponseHeader, question: number): void {
    header.slot = 0;
    header.value = question;
    header.word = 0;
  },
  question: valueAt,
};

/** Carry: a message to another shard. */
export const CarryView = {
  fill(header: ResponseHeader, toShard: number, transferMessage: number, transfer: number): void {
    header.value = toShard;
    header.slot = transferMessage;
    header.word = transfer;
  },
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

/** Writes responses into one ring. */
export class ResponseWriter {
  readonly ring: RingWriter;

  constructor(ring: RingWriter) {
    this.ring = ring;
  }

  /**
   * Claims room for a response and writes its header. Returns the position of the payload, or FULL.
   */
  // put 8/10
  write(header: ResponseHeader, payloadBytes: number): number {
    const ring = this.ring;
    const offset = ring.claim(RESPONSE_HEADER_BYTES + payloadBytes);
    if (offset === FULL) return FULL;
    const word = offset >> 2;
    ring.int32[word + 1] = header.kind | (header.flags << 16);
    ring.int32[word + 2] = header.slot;
    ring.uint32[word + 3] = payloadBytes;
    ring.float64[(offset >> 3) + 2] = header.value;
    ring.uint32[word + 6] = header.word;
    ring.uint32[word + 7] = header.recordNumber;
    return offset + RESPONSE_HEADER_BYTES;
  }
}
