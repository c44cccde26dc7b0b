// What a shard says to an acceptor, as bytes in a ring.
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
  /** A job that could be taken: `value` its id, `pri`. */
  Candidate: 2,
  /** No such job, or none, here. */
  Absent: 3,
  /** Done, nothing to tell the client. */
  Ack: 4,
  /** The connection is forgotten; its slot may be used again once all shards said so. */
  Closed: 5,
  /** The wait number `value` may have to end. */
  WaitDue: 6,
  /** Part of a list of tubes: entries of float64 sequence, uint8 length, name, one behind the other. */
  Tubes: 7,
  /** Read what your sockets have, then answer with Looked and the number `value`. To no connection. */
  Look: 8,
  /**
   * Bytes for the client, a part of a body in the arena of the shard among them: only between roles of one thread. `value`
   * is the handle of the body, which is pinned until this is taken, and `pri` where the part begins. The payload is its
   * length as uint32, 1 as uint32 if CR LF follows it, and what comes before it.
   */
  Stored: 9,
  /**
   * To the Control request number `value`, flag More if another part follows. Waits for its record if it is Durable. To no
   * connection.
   */
  Control: 10,
  /** The session is kept by the number of its move; nothing more comes for this slot. */
  Detached: 20,
  /**
   * Jobs that could be taken for a batch, best first: behind the soonest deadline for each of them its id as float64, its
   * pri as uint32, and as uint32 the bytes of its body, with CANDIDATE_LOST if it was lost before. `value` is 1 if the
   * message had no room for more of them.
   */
  Candidates: 21,
  /**
   * Jobs that were taken for a batch: for each that was asked for as uint32 how many bytes there are of it, 0 if it was not
   * taken; then the bytes for the client of all of them. Or jobs of a list over all shards: see listed-jobs.ts. With flag
   * More another part follows.
   */
  Gathered: 22,
  /**
   * The job `value` of the command lives on another shard, or nobody knows: find it, send the command there, and say GoOn. Until
   * then the connection's next commands wait. Behind the soonest deadline stand its op, length of the options as
   * one uint32, its delay in seconds as another, its options, and what else its op has.
   */
  Redirected: 23,
  /**
   * To another shard, whose number is `value`: see message/shipment.ts. `slot` is its kind, `pri` the number of the shipment. It
   * goes on once the sender's record of this number is written, or, if it is Durable, as far in the log as replies wait for.
   * To no connection.
   */
  Carry: 24,
} as const;

export const ResponseFlag = {
  /** More of this reply follows in another message. */
  More: 1,
  /** The connection holds a job on this shard. */
  DurabilityWaits: 2,
  /** The reply gives the connection a job by reserve-job: it counts as a worker. */
  Worker: 4,
  /**
   * The reply must not leave before the record with its number is as far in the log as `-f` asks: written, or
   * synced.
   */
  Durable: 8,
} as const;

/** Bytes of an entry of Candidates. */
export const CANDIDATE_BYTES = 16;
/** In the size of such an entry: the job travels alone. */
export const CANDIDATE_LOST = 0x80000000;

/** Bytes of a Strayed before the options. */
export const STRAYED_HEADER_BYTES = 16;

/** Bytes of a Stored before those that go before the part of the body. */
export const STORED_HEADER_BYTES = 8;

export const RESPONSE_HEADER_BYTES = 32;

/** What stands before a payload. Mutable, so that one serves for all responses of a writer. */
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

  /** Claims room for a response and writes its header. Returns where the payload goes, or FULL. */
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
