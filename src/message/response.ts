// Messages from a shard to an acceptor, as bytes in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint8    kind
//   offset  6  uint16   flags
//   offset  8  int32    connection slot at the acceptor
//   offset 12  uint32   payload bytes
//   offset 16  float64  value  job id of a candidate; number of a wait
//   offset 24  uint32   pri of a candidate
//   offset 28  uint32   number of the shard's last log record that the reply depends on (wraps)
//   offset 32  payload         bytes for the client; of a signal the soonest deadline, as float64

import { FULL, type RingWriter } from "../ring/ring-writer.ts";

export const ResponseKind = {
  /** Bytes for the client. */
  Reply: 1,
  /** A job that could be taken: `value` is its id, `pri` its priority. */
  Candidate: 2,
  /** No such job, or no job, is here. */
  Absent: 3,
  /** Done, with nothing to tell the client. */
  Ack: 4,
  /** The connection is forgotten. Its slot may be reused once all shards have sent this. */
  Closed: 5,
  /** The wait number `value` may have to end. */
  WaitDue: 6,
  /** Part of a list of tubes: entries of float64 sequence, uint8 length, name. */
  Tubes: 7,
  /**
   * Read your sockets, then answer with BarrierAck and the number `value`. With flag HaveRead,
   * answer at once. Belongs to no connection.
   */
  Look: 8,
  /**
   * Bytes for the client, including part of a body in the shard's arena. Only between roles of one
   * thread. `value` is the handle of the body, which is pinned until this message is taken, and
   * `pri` the offset of the part. The payload has the length of the part as uint32, 1 as uint32 if
   * CR LF follows it (otherwise 0), and the bytes that precede it.
   */
  Stored: 9,
  /**
   * Answer to the Control request number `value`. The flag More means that another part follows. If
   * it is Durable, it waits for its record. Belongs to no connection.
   */
  Control: 10,
  /** The session is kept under the number of its move. Nothing more comes for this slot. */
  Detached: 20,
  /**
   * Jobs that could be taken for a batch, best first. After the soonest deadline, each has its id
   * as float64, its pri as uint32, and the size of its body as uint32, plus CANDIDATE_LOST if it
   * was lost before. `value` is 1 if there are more of them.
   */
  Candidates: 21,
  /**
   * Jobs taken for a batch: the size of each requested job as uint32, 0 if it was not taken, then
   * the bytes of all of them for the client. Or jobs of a list over all shards: see listed-jobs.ts.
   * The flag More means that another part follows.
   */
  Gathered: 22,
  /**
   * The job `value` of the command is on another shard, or unknown: find it, send the command
   * there, then send GoOn. The connection's next commands wait until then. After the soonest
   * deadline come the op and the length of the options as one uint32, the delay in seconds as
   * another, the options, and further bytes that depend on the op.
   */
  Redirected: 23,
  /**
   * A message to another shard, whose number is `value`: see message/shipment.ts. `slot` is its
   * kind, `pri` the number of the shipment. It is relayed once the sender's record with this number
   * is written or, if it is Durable, as far in the log as replies require. Belongs to no
   * connection.
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
  /** The acceptor has read its sockets for this barrier: it tells that it took what came before in this ring. */
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
  value: number;
  pri: number;
  recordNumber: number;
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
    ring.uint32[word + 6] = header.pri;
    ring.uint32[word + 7] = header.recordNumber;
    return offset + RESPONSE_HEADER_BYTES;
  }
}
