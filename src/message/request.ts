// What an acceptor says to a shard: a Request, as bytes in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint8    op
//   offset  5  uint8    counted
//   offset  6  uint16   flags
//   offset  8  int32    slot
//   offset 12  uint32   bytes of the body, or of the piece of one, in this message
//   offset 16  uint32   pri
//   offset 20  uint32   delaySeconds
//   offset 24  uint32   ttrSeconds
//   offset 28  uint32   readBytes
//   offset 32  float64  id
//   offset 40  float64  atMs
//   offset 48  float64  timeoutMs
//   offset 56  uint32   bodyBytes
//   offset 60  uint32   count
//   offset 64  uint32   waitNumber
//   offset 68  uint8    bytes of the tube's name
//   offset 69  uint8    bytes of the options, divided by 4
//   offset 70  uint16   delayMillis
//   offset 72  tube, and right behind it options and body

import { COMMAND_OPS } from "../protocol/commands.ts";
import type { Request, Span } from "../protocol/request.ts";
import type { MessageSource } from "../ring/message-source.ts";
import { FULL, type RingWriter } from "../ring/ring-writer.ts";

/** Of each job that a TakeBatch names. */
export const LISTED_BYTES = 12;

/** Messages that are not commands of the wire. */
export const RequestOp = {
  /** A connection opened: it uses and watches `default`, which lives here. */
  Attach: COMMAND_OPS + 0,
  /**
   * A connection ended; answered with Closed, once however often it is sent. With flag Orderly, after what is
   * under way.
   */
  Close: COMMAND_OPS + 1,
  /** The client can't send any more: end its wait, never wait again. */
  HalfClose: COMMAND_OPS + 2,
  /** Answer with the body, in order: a reply that the acceptor knew. */
  Echo: COMMAND_OPS + 3,
  /** A put whose body of `bodyBytes` comes in pieces; the first may be in this message. */
  PutOpen: COMMAND_OPS + 4,
  PutData: COMMAND_OPS + 5,
  /** The last piece; flag BadBody if no CR LF followed it. */
  PutEnd: COMMAND_OPS + 6,
  /** The client has read `readBytes` of its replies, as in a Metered message. */
  Credit: COMMAND_OPS + 7,
  /** Ask for the best job without taking it. */
  Collect: COMMAND_OPS + 8,
  /** Take the best job if it is at least as good as (pri, id). */
  Take: COMMAND_OPS + 9,
  /** Wait for a job together with other shards: `waitNumber`, and `atMs` when it times out. */
  WaitShared: COMMAND_OPS + 10,
  /** End that wait, it ended elsewhere. No answer. */
  StopWait: COMMAND_OPS + 11,
  /** Run what is due and say how soon a reservation ends. */
  Recheck: COMMAND_OPS + 12,
  /** The tube in use moved to another shard. */
  Unuse: COMMAND_OPS + 13,
  /**
   * Before a reserve over several shards is refused: answer Ack when the other acceptors have looked, if that
   * may help.
   */
  LookFirst: COMMAND_OPS + 14,
  /** The acceptor has read what its sockets had when it got the Look of number `id`. Of no connection. */
  BarrierAck: COMMAND_OPS + 15,
  /** A put whose body is in the arena of the shard already: the body of this message is its handle, a uint32. */
  PutStored: COMMAND_OPS + 16,
  /** The connection moves to another acceptor, with nothing under way: keep its session by the number `id`, answer Detached. */
  Detach: COMMAND_OPS + 50,
  /** From where it has moved to: the session of number `id` is that of this slot. No answer. */
  Adopt: COMMAND_OPS + 51,
  /** A question of the http thread, or an order: see message/control.ts. `id` is its number. Of no connection. */
  Control: COMMAND_OPS + 40,
  /** Name the best `count` jobs, with bodies of up to `bodyBytes`, without taking them: answered with Candidates. */
  CollectBatch: COMMAND_OPS + 20,
  /**
   * Take those of the jobs that are still there; the body has their ids as float64, each with its pri as uint32. Answered with Gathered, or with flag
   * Whole with the reply for the client, or with Absent if none is there.
   */
  TakeBatch: COMMAND_OPS + 21,
  /** The client has said something behind its reserve-batch number `waitNumber`, which must not wait any longer. */
  Abort: COMMAND_OPS + 22,
  /** Whether the job `id` is here: answered with Ack or Absent. */
  Locate: COMMAND_OPS + 23,
  /** The command that the shard had no job for is answered, by whomever: what waits behind it goes on. As First in a command. */
  GoOn: COMMAND_OPS + 24,
  /** From another shard, whose number is `slot`: see message/shipment.ts. `count` is its kind, `id` the number of the shipment. Of no connection. */
  Carried: COMMAND_OPS + 25,
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
  /** `readBytes` counts the bytes of replies that the client has read since the last First (it wraps). */
  Metered: 32,
  /**
   * Nothing was under way before this: the counts begin anew, and `readBytes` is what the client has not read
   * so far.
   */
  First: 64,
  /** The client may still read: a Close waits its turn behind commands. */
  Orderly: 128,
  /** The reply is that of reserve-batch. */
  Batch: 256,
  /** With the names of the tubes. */
  Tubes: 512,
  /** All jobs of the batch are asked of this shard. */
  Whole: 1024,
  /** It is the only job of the batch. */
  Single: 2048,
} as const;

export const REQUEST_HEADER_BYTES = 72;

/** The largest payload, tube, options and body together, of one message in a ring. */
export function requestPayloadBytesMax(ring: RingWriter): number {
  return ring.messageBytesMax - REQUEST_HEADER_BYTES;
}

/** Writes a request into a ring; false if there is no room for it now. */
// put 4/10
export function writeRequest(ring: RingWriter, request: Request): boolean {
  const { tube, options, body } = request;
  const offset = ring.claim(REQUEST_HEADER_BYTES + tube.length + options.length + body.length);
  if (offset === FULL) return false;
  const word = offset >> 2;
  const { uint32, float64 } = ring;
  uint32[word + 1] = request.op | (request.counted << 8) | (request.flags << 16);
  uint32[word + 2] = request.slot;
  uint32[word + 3] = body.length;
  uint32[word + 4] = request.pri;
  uint32[word + 5] = request.delaySeconds;
  uint32[word + 6] = request.ttrSeconds;
  uint32[word + 7] = request.readBytes;
  float64[(offset >> 3) + 4] = request.id;
  float64[(offset >> 3) + 5] = request.atMs;
  float64[(offset >> 3) + 6] = request.timeoutMs;
  uint32[word + 14] = request.bodyBytes;
  uint32[word + 15] = request.count;
  uint32[word + 16] = request.waitNumber;
  uint32[word + 17] = tube.length | (options.length << 6) | (request.delayMillis << 16);
  let at = tube.copyTo(ring.bytes, offset + REQUEST_HEADER_BYTES);
  if (options.length > 0) at = options.copyTo(ring.bytes, at);
  body.copyTo(ring.bytes, at);
  return true;
}

/** Reads the message at `offset`; tube and body are parts of `source.bytes`, valid as long as the message. */
export function readRequest(source: MessageSource, offset: number, into: Request): void {
  const word = offset >> 2;
  const { bytes, uint32, float64 } = source;
  const first = uint32[word + 1]!;
  into.op = first & 0xff;
  into.counted = (first >> 8) & 0xff;
  into.flags = first >>> 16;
  into.slot = uint32[word + 2]!;
  into.pri = uint32[word + 4]!;
  into.delaySeconds = uint32[word + 5]!;
  into.ttrSeconds = uint32[word + 6]!;
  into.readBytes = uint32[word + 7]!;
  into.id = float64[(offset >> 3) + 4]!;
  into.atMs = float64[(offset >> 3) + 5]!;
  into.timeoutMs = float64[(offset >> 3) + 6]!;
  into.bodyBytes = uint32[word + 14]!;
  into.count = uint32[word + 15]!;
  into.waitNumber = uint32[word + 16]!;
  const last = uint32[word + 17]!;
  into.delayMillis = last >>> 16;
  const tubeAt = offset + REQUEST_HEADER_BYTES;
  const optionsAt = tubeAt + (last & 0xff);
  const bodyAt = optionsAt + ((last >>> 6) & 0x3fc);
  into.tube.set(bytes, tubeAt, optionsAt);
  into.options.set(bytes, optionsAt, bodyAt);
  into.body.set(bytes, bodyAt, bodyAt + uint32[word + 3]!);
}

/** The op of the message at `offset`. */
export function requestOp(source: MessageSource, offset: number): number {
  return source.bytes[offset + 4]!;
}

/** Makes the body of a PutStored: bytes of their own, to be filled in for each. */
export class HandleBytes {
  readonly #view = new DataView(new ArrayBuffer(4));
  readonly #bytes = new Uint8Array(this.#view.buffer);

  put(handle: number, into: Span): void {
    this.#view.setUint32(0, handle, true);
    into.set(this.#bytes, 0, 4);
  }
}

/** The handle that is the body of a PutStored. */
export function handleOf(body: Span): number {
  const { bytes, start } = body;
  return (
    (bytes[start]! | (bytes[start + 1]! << 8) | (bytes[start + 2]! << 16) | (bytes[start + 3]! << 24)) >>> 0
  );
}
