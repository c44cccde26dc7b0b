// Messages from an acceptor to a shard: a Request, as bytes in a ring.
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
//   offset 28  uint32   meterBytes
//   offset 32  float64  id
//   offset 40  float64  atMs
//   offset 48  float64  timeoutMs
//   offset 56  uint32   bodyBytes
//   offset 60  uint32   count
//   offset 64  uint32   waitNumber
//   offset 68  uint8    bytes of the tube's name
//   offset 69  uint8    bytes of the options, divided by 4
//   offset 70  uint16   delayMillis
//   offset 72  tube, followed directly by options and body
//
// The names are those of Request. A message that uses a word for something else has a view below,
// which names it.

import { copyBytes } from "../base/bytes.ts";
import { COMMAND_OPS, ROUTE_OF, Route, WAITS_FOR_TRANSFER } from "../protocol/commands.ts";
import type { Request, Span } from "../protocol/request.ts";
import { FULL, type MessageSource, type RingWriter } from "../ring/ring.ts";

/** Bytes for each job that a TakeBatch names. */
export const LISTED_BYTES = 16;

/** Messages that are not protocol commands. */
export const RequestOp = {
  /** A connection has opened: it uses and watches `default`, which lives on this shard. */
  Attach: COMMAND_OPS + 0,
  /**
   * A connection has ended. Answered with Closed, once however often it is sent. With the flag
   * Orderly, it takes effect after the commands in flight.
   */
  Close: COMMAND_OPS + 1,
  /** The client has closed its sending side: end its wait, and never wait again. */
  HalfClose: COMMAND_OPS + 2,
  /** Answer with the body, in order: a reply that the acceptor has composed. */
  Echo: COMMAND_OPS + 3,
  /** A put whose body of `bodyBytes` comes in pieces. The first one may be in this message. */
  PutOpen: COMMAND_OPS + 4,
  PutData: COMMAND_OPS + 5,
  /** The last piece. The flag BadBody is set if no CR LF followed it. */
  PutEnd: COMMAND_OPS + 6,
  /** The client has read `meterBytes` of its replies, as in a Metered message. */
  Credit: COMMAND_OPS + 7,
  /** Name the best job without taking it. */
  Collect: COMMAND_OPS + 8,
  /** Take the best job if it is at least as good as (pri, id). */
  Take: COMMAND_OPS + 9,
  /** Wait for a job together with other shards: see WaitView. */
  WaitShared: COMMAND_OPS + 10,
  /** End that wait, because it ended elsewhere. No answer. */
  StopWait: COMMAND_OPS + 11,
  /** Run due timers and report the soonest deadline. */
  Recheck: COMMAND_OPS + 12,
  /** The tube in use is now on another shard. */
  Unuse: COMMAND_OPS + 13,
  /**
   * A reserve over several shards is about to be refused: if a read barrier may help, answer Ack
   * after it, otherwise at once.
   */
  AwaitBarrier: COMMAND_OPS + 14,
  /** The acceptor has read its sockets since it got this Barrier. Belongs to no connection. */
  BarrierAck: COMMAND_OPS + 15,
  /**
   * A put whose body is in the shard's arena already. The body of this message is its handle, a
   * uint32.
   */
  PutStored: COMMAND_OPS + 16,
  /**
   * The connection moves to another acceptor, with nothing in flight: keep its session under the
   * number of the move and answer Detached.
   */
  Detach: COMMAND_OPS + 50,
  /** From the new acceptor: the session of this move now belongs to `slot`. No answer. */
  Adopt: COMMAND_OPS + 51,
  /**
   * A question or an order of the HTTP thread: see message/control.ts. Belongs to no connection.
   */
  Control: COMMAND_OPS + 40,
  /** Name the best jobs within the limits, without taking them. Answered with Candidates. */
  CollectBatch: COMMAND_OPS + 20,
  /**
   * Take those of the jobs that are still there. The body has each id as float64 and its pri as
   * uint32. Answered with Gathered; with the flag Whole, with the client's reply, or with Absent if
   * none is left. Without a body: take what a batch within the limits gets here now. With the flag
   * OneGroup, the one listed job goes with others of its group, within the limits.
   */
  TakeBatch: COMMAND_OPS + 21,
  /**
   * The client has sent bytes after its reserve-batch number `waitNumber`, which must not wait any
   * longer.
   */
  Abort: COMMAND_OPS + 22,
  /** Report whether the job `id` is here: Ack or Absent. */
  Locate: COMMAND_OPS + 23,
  /**
   * The redirected command has been answered: resume the commands behind it. The counts restart as
   * with First.
   */
  GoOn: COMMAND_OPS + 24,
  /** A message from another shard: see message/transfer.ts. Belongs to no connection. */
  Carried: COMMAND_OPS + 25,
  /** Report whether the schedule that the body names is here: an Ack with 1 or 0. */
  LocateSchedule: COMMAND_OPS + 26,
} as const;

export const RequestFlag = {
  /** The acceptor is looking for the job: answer Absent if it is not here. */
  Probe: 1,
  /** The reserve must not wait. */
  NoWait: 2,
  /** The body of a put did not end in CR LF. */
  BadBody: 4,
  /** Answer Ack instead of a reply. */
  AckOnly: 8,
  /** This shard counts the waiting connection. */
  Lead: 16,
  /** `meterBytes` counts the bytes that the client has read since the last First; it wraps. */
  Metered: 32,
  /**
   * Nothing was in flight before this message, so the counts restart: `meterBytes` of the earlier
   * replies are in the acceptor's output, unread.
   */
  First: 64,
  /** The client may still read: a Close waits its turn after the commands. */
  Orderly: 128,
  /** The reply is that of reserve-batch. */
  Batch: 256,
  /** Include the names of the tubes. */
  Tubes: 512,
  /** This shard has all jobs of the batch. */
  Whole: 1024,
  /** It is the only job of the batch. */
  Single: 2048,
  /** The server stops, so the jobs that the connection holds have not failed. */
  Stopping: 4096,
  /** Include what jobs were put with as `meta`. */
  Meta: 8192,
  /** Memory had no room for the body of a put. */
  NoRoom: 16384,
  /** All jobs of the batch belong to the tube and group of the first. */
  OneGroup: 32768,
} as const;

/** Flags for what a batch includes about each job besides its body. */
export const BATCH_DETAILS: number = RequestFlag.Tubes | RequestFlag.Meta;

// --- views: the words of a message by the names that they have there ---

/** Carried. The body is the message of the other shard. */
export const CarriedView = {
  fill(message: Request, fromShard: number, transferMessage: number, transfer: number): void {
    message.slot = fromShard;
    message.count = transferMessage;
    message.id = transfer;
  },
  fromShard: ({ slot }: Request): number => slot,
  transferMessage: ({ count }: Request): number => count,
  transfer: ({ id }: Request): number => id,
};

/** BarrierAck. */
export const BarrierAckView = {
  fill(message: Request, barrier: number): void {
    message.slot = 0;
    message.id = barrier;
  },
  barrier: ({ id }: Request): number => id,
};

/** Detach and Adopt. The slot is that of the connection at the sending acceptor. */
export const MigrationView = {
  fill(message: Request, slot: number, move: number): void {
    message.slot = slot;
    message.id = move;
  },
  move: ({ id }: Request): number => id,
};

/** Control. The body is the question. */
export const ControlView = {
  fill(message: Request, question: number): void {
    message.slot = 0;
    message.id = question;
  },
  question: ({ id }: Request): number => id,
};

/** WaitShared. */
export const WaitView = {
  /** `timeoutAtMs` is in monotonic ms, Infinity for no timeout. */
  fill(message: Request, waitNumber: number, timeoutAtMs: number): void {
    message.waitNumber = waitNumber;
    message.atMs = timeoutAtMs;
  },
  timeoutAtMs: ({ atMs }: Request): number => atMs,
  /** For a batch that fills: when to count again. `fillsAt` is 0 for all other waits. */
  fillBatch(message: Request, fillsAt: number, lingerMs: number): void {
    message.count = fillsAt;
    message.id = lingerMs;
  },
  fillsAt: ({ count }: Request): number => count,
  lingerMs: ({ id }: Request): number => id,
};

/** The command reserve-batch, CollectBatch and Abort. `jobsMax` is the count on the wire. */
export const BatchView = {
  limitJobs(message: Request, jobsMax: number): void {
    message.count = jobsMax;
  },
  /** Limits the bytes of all bodies together. */
  limitBytes(message: Request, bytesMax: number): void {
    message.bodyBytes = bytesMax;
  },
  jobsMax: ({ count }: Request): number => count,
  bytesMax: ({ bodyBytes }: Request): number => bodyBytes,
  /** CollectBatch: count the ready jobs. TakeBatch without a list: take none if there are fewer. */
  setMin(message: Request, min: number): void {
    message.pri = min;
  },
  min: ({ pri }: Request): number => pri,
  setNumber(message: Request, number: number): void {
    message.waitNumber = number;
  },
  /** The number under which the client may abort the batch, or 0. */
  number: ({ waitNumber }: Request): number => waitNumber,
};

/** The command inspect-job. The mark stays with a command that is redirected. */
export const InspectJobView = {
  leaveOutTexts(message: Request): void {
    message.pri = 1;
  },
  leavesOutTexts: ({ pri }: Request): boolean => pri === 1,
};

/** The jobs that the body of TakeBatch lists, as they were when a shard named them. */
export const ListedView = {
  write(view: DataView, index: number, id: number, pri: number, bodyBytes: number): void {
    view.setFloat64(index * LISTED_BYTES, id, true);
    view.setUint32(index * LISTED_BYTES + 8, pri, true);
    view.setUint32(index * LISTED_BYTES + 12, bodyBytes, true);
  },
  id: (view: DataView, index: number): number => view.getFloat64(index * LISTED_BYTES, true),
  pri: (view: DataView, index: number): number => view.getUint32(index * LISTED_BYTES + 8, true),
  bodyBytes: (view: DataView, index: number): number => view.getUint32(index * LISTED_BYTES + 12, true),
};

/** A list-jobs with the flag AckOnly. */
export const ListPartView = {
  limitText(message: Request, textBytesMax: number): void {
    message.bodyBytes = textBytesMax;
  },
  textBytesMax: ({ bodyBytes }: Request): number => bodyBytes,
};

/** A set-tube with the flag AckOnly. */
export const SetPartView = {
  /** `change` is greater than that of every earlier change. */
  fill(message: Request, change: number): void {
    message.id = change;
  },
  change: ({ id }: Request): number => id,
};

/** The commands watch and ignore, from the acceptor. */
export const WatchView = {
  fill(message: Request, watchedTubes: number): void {
    message.count = watchedTubes;
  },
  watchedTubes: ({ count }: Request): number => count,
};

/** The command watch with a weight: one of 1 to 1000, or 0 for none. */
export const WeightView = {
  fill(message: Request, weight: number): void {
    message.pri = weight;
  },
  weight: ({ pri }: Request): number => pri,
};

/** The command open-batch, from the acceptor. */
export const OpenBatchView = {
  fill(message: Request, number: number): void {
    message.id = number;
  },
  number: ({ id }: Request): number => id,
};

const REQUEST_HEADER_BYTES = 72;

/** Returns the largest payload (tube, options and body together) of one message in a ring. */
export function requestPayloadBytesMax(ring: RingWriter): number {
  return ring.messageBytesMax - REQUEST_HEADER_BYTES;
}

/** Writes a request into a ring. Returns false if there is no room now. */
// put 6/18
export function writeRequest(ring: RingWriter, request: Request): boolean {
  const { tube, options, body } = request;
  const tubeBytes = tube.end - tube.start;
  const optionBytes = options.end - options.start;
  const bodyBytes = body.end - body.start;
  const offset = ring.claim(REQUEST_HEADER_BYTES + tubeBytes + optionBytes + bodyBytes);
  if (offset === FULL) return false;
  const word = offset >> 2;
  const { uint32, float64 } = ring;
  uint32[word + 1] = request.op | (request.counted << 8) | (request.flags << 16);
  uint32[word + 2] = request.slot;
  uint32[word + 3] = bodyBytes;
  uint32[word + 4] = request.pri;
  uint32[word + 5] = request.delaySeconds;
  uint32[word + 6] = request.ttrSeconds;
  uint32[word + 7] = request.meterBytes;
  float64[(offset >> 3) + 4] = request.id;
  float64[(offset >> 3) + 5] = request.atMs;
  float64[(offset >> 3) + 6] = request.timeoutMs;
  uint32[word + 14] = request.bodyBytes;
  uint32[word + 15] = request.count;
  uint32[word + 16] = request.waitNumber;
  uint32[word + 17] = tubeBytes | (optionBytes << 6) | (request.delayMillis << 16);
  const at = offset + REQUEST_HEADER_BYTES;
  if (tubeBytes > 0) copyBytes(ring.bytes, at, tube.bytes, tube.start, tubeBytes);
  if (optionBytes > 0) copyBytes(ring.bytes, at + tubeBytes, options.bytes, options.start, optionBytes);
  if (bodyBytes > 0) copyBytes(ring.bytes, at + tubeBytes + optionBytes, body.bytes, body.start, bodyBytes);
  return true;
}

/**
 * Reads the message at `offset`. Tube, options and body refer to `source.bytes` and are valid as
 * long as the message.
 */
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
  into.meterBytes = uint32[word + 7]!;
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
  const { tube, options, body } = into;
  tube.bytes = options.bytes = body.bytes = bytes;
  tube.start = tubeAt;
  tube.end = options.start = optionsAt;
  options.end = body.start = bodyAt;
  body.end = bodyAt + uint32[word + 3]!;
}

export function requestOp(source: MessageSource, offset: number): number {
  return source.bytes[offset + 4]!;
}

/** Returns whether a message is a client's command on a job named by id. */
export function isById({ op }: Request): boolean {
  return ROUTE_OF[op] === Route.Job;
}

/**
 * Returns whether a command by id waits while its job is in transfer. Probes that go to one shard
 * after another always do.
 */
export function waitsForTransfer({ op, flags }: Request): boolean {
  return (flags & RequestFlag.Probe) !== 0 || WAITS_FOR_TRANSFER[op] === 1;
}

/** Fills in the body of a PutStored. The bytes are reused. */
export class HandleBytes {
  readonly #view = new DataView(new ArrayBuffer(4));
  readonly #bytes = new Uint8Array(this.#view.buffer);

  put(handle: number, into: Span): void {
    this.#view.setUint32(0, handle, true);
    into.set(this.#bytes, 0, 4);
  }
}

export function handleOf(body: Span): number {
  const { bytes, start } = body;
  return (
    (bytes[start]! | (bytes[start + 1]! << 8) | (bytes[start + 2]! << 16) | (bytes[start + 3]! << 24)) >>> 0
  );
}
