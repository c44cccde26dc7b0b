// What an acceptor says to a shard, as bytes in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint8    op: a wire Op below 32, or one of RequestOp
//   offset  5  uint8    flags
//   offset  6  uint8    the wire Op to count when the shard executes this, or 0
//   offset  8  int32    connection slot at the acceptor
//   offset 12  uint32   payload bytes
//   offset 16  uint32   a      pri; bound of kick
//   offset 20  uint32   b      delay in seconds
//   offset 24  uint32   c      ttr in seconds; number of a wait; count of watched tubes
//   offset 28  uint32   d      declared body bytes of PutOpen; with the flag Metered the bytes of replies that were read
//   offset 32  float64  id     job id
//   offset 40  float64  time   a moment or timeout in ms
//   offset 48  payload         tube name, body, reply text

import { FULL, type RingWriter } from "../ring/ring-writer.ts";

/** Messages that are not commands of the wire. */
export const RequestOp = {
  /** A connection opened: it uses and watches `default`, which lives here. */
  Attach: 32,
  /** A connection ended; answered with Closed, once however often it is sent. With flag Orderly, after what is under way. */
  Close: 33,
  /** The client can't send any more: end its wait, never wait again. */
  HalfClose: 34,
  /** Answer with the payload, in order: a reply that the acceptor knew. */
  Echo: 35,
  /** A put whose body comes in pieces: `d` its size, payload the first piece. */
  PutOpen: 36,
  PutData: 37,
  /** The last piece; flag BadBody if no CR LF followed it. */
  PutEnd: 38,
  /** The client has read `a` bytes of its replies, as `d` of a Metered message. */
  Credit: 39,
  /** Ask for the best job without taking it. */
  Collect: 40,
  /** Take the best job if it is at least as good as (a, id). */
  Take: 41,
  /** Wait for a job together with other shards: `c` the number of the wait, `time` when it times out. */
  WaitShared: 42,
  /** End that wait, it ended elsewhere. No answer. */
  StopWait: 43,
  /** Run what is due and say how soon a reservation ends. */
  Recheck: 44,
  /** The tube in use moved to another shard. */
  Unuse: 45,
  /** Before a reserve over several shards is refused: answer Ack when the other acceptors have looked, if that may help. */
  LookFirst: 46,
  /** The acceptor has read what its sockets had when it got the Look of number `id`. Of no connection. */
  Looked: 47,
} as const;

export const RequestFlag = {
  /** Sent to all shards by id: answer Absent where the job does not live. */
  Probe: 1,
  /** The reserve must not wait. */
  NoWait: 2,
  /** A put's body did not end in CR LF. */
  BadBody: 4,
  /** Answer Ack instead of a reply. */
  AckOnly: 8,
  /** This shard counts the waiting connection. */
  Lead: 16,
  /** `d` counts the bytes of replies that the client has read since the last First (it wraps). */
  Metered: 32,
  /** Nothing was under way before this: the counts begin anew, and `d` is what the client has not read so far. */
  First: 64,
  /** The client may still read: a Close waits its turn behind commands. */
  Orderly: 128,
} as const;

export const REQUEST_HEADER_BYTES = 48;

/** Writes requests into one ring. Every method returns the payload's offset, or FULL. */
export class RequestWriter {
  readonly ring: RingWriter;

  constructor(ring: RingWriter) {
    this.ring = ring;
  }

  /** The largest payload of one message. */
  get payloadBytesMax(): number {
    return this.ring.messageBytesMax - REQUEST_HEADER_BYTES;
  }

  // put 4/10
  write(
    op: number,
    flags: number,
    counted: number,
    slot: number,
    payloadBytes: number,
    a: number,
    b: number,
    c: number,
    d: number,
    id: number,
    time: number,
  ): number {
    const ring = this.ring;
    const offset = ring.claim(REQUEST_HEADER_BYTES + payloadBytes);
    if (offset === FULL) return FULL;
    const word = offset >> 2;
    ring.int32[word + 1] = op | (flags << 8) | (counted << 16);
    ring.int32[word + 2] = slot;
    ring.uint32[word + 3] = payloadBytes;
    ring.uint32[word + 4] = a;
    ring.uint32[word + 5] = b;
    ring.uint32[word + 6] = c;
    ring.uint32[word + 7] = d;
    ring.float64[(offset >> 3) + 4] = id;
    ring.float64[(offset >> 3) + 5] = time;
    return offset + REQUEST_HEADER_BYTES;
  }
}
