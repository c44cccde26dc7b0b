// A command with its arguments, or another message to a shard: one struct that parser, ring and
// shard share.
//
// Each thread reuses one struct, so commands allocate nothing. A writer sets only the fields that
// the op needs, and a reader reads only those. `message/request.ts` defines the ops that are not
// commands, the flags, and the layout in a ring.

import { copyBytes, latin1 } from "../base/bytes.ts";

// The orders in which a connection picks its jobs: the argument of `reserve-order`.

/** In the order of RESERVE_ORDER_WORDS. */
export const ReserveOrder = {
  /** beanstalkd's: the best job of all watched tubes. */
  Strict: 0,
  /** Jobs of the watched tubes in the proportion of their weights. */
  Weighted: 1,
  /** The same for the time that the connection holds the jobs of a tube. */
  WeightedTime: 2,
} as const;
export type ReserveOrder = (typeof ReserveOrder)[keyof typeof ReserveOrder];

export const RESERVE_ORDER_WORDS = ["strict", "weighted", "weighted-time"] as const;

const NO_BYTES = new Uint8Array(0);

/**
 * A part of an array: `bytes[start, end)`. The code that fills it defines how long the bytes stay
 * valid.
 */
export class Span {
  bytes: Uint8Array = NO_BYTES;
  start = 0;
  end = 0;
  /** The reused target of `copyOf`. */
  #own: Uint8Array = NO_BYTES;

  get length(): number {
    return this.end - this.start;
  }

  /** The bytes as Latin-1. */
  get text(): string {
    return this.start === this.end ? "" : latin1(this.bytes, this.start, this.end);
  }

  set(bytes: Uint8Array, start: number, end: number): void {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
  }

  clear(): void {
    this.bytes = NO_BYTES;
    this.start = 0;
    this.end = 0;
  }

  /** Makes this span a copy of another, in memory of its own that the next copy overwrites. */
  copyOf({ bytes, start, end }: Span): void {
    const length = end - start;
    if (length > this.#own.length) this.#own = new Uint8Array(length);
    copyBytes(this.#own, 0, bytes, start, length);
    this.set(this.#own, 0, length);
  }

  /** Copies the bytes to `target[at]`; returns the position after them. */
  copyTo(target: Uint8Array, at: number): number {
    const length = this.end - this.start;
    copyBytes(target, at, this.bytes, this.start, length);
    return at + length;
  }
}

export class Request {
  /** An Op or a RequestOp. */
  op = 0;
  /** RequestFlags. */
  flags = 0;
  /** The Op to count when the shard executes this request, or 0. */
  counted = 0;
  /** The connection's slot at its acceptor. */
  slot = 0;
  /** Job id; 0 for an id that no job can have. */
  id = 0;
  pri = 0;
  /** For put, release and pause-tube. */
  delaySeconds = 0;
  /** The fraction of an extension's delay: 0 to 999 ms. */
  delayMillis = 0;
  ttrSeconds = 0;
  /** Size of the whole body of a put, without its CR LF. */
  bodyBytes = 0;
  /** When the acceptor read a put; monotonic ms. */
  atMs = 0;
  /** Maximum wait of a reserve in ms; Infinity for no limit. */
  timeoutMs = 0;
  /** Maximum number of jobs to kick or to reserve, or the number of ids. */
  count = 0;
  /** Number of a wait over several shards, or of a batch that its client may abort. */
  waitNumber = 0;
  /**
   * Reply bytes that the client has read or, where the counts begin, that it has not read: see
   * message/response.ts.
   */
  meterBytes = 0;
  readonly tube: Span = new Span();
  /** Encoded options: see options.ts. The length is a multiple of 4. */
  readonly options: Span = new Span();
  /** The body or a piece of it, the bytes of a reply in transit, or an argument of a command. */
  readonly body: Span = new Span();

  /** The ids of a delete-batch, as the client sent them. */
  get ids(): Span {
    return this.body;
  }

  /** The name of a batch. Its home is the shard of the tube with this name. */
  get batch(): Span {
    return this.tube;
  }

  /** The order of a reserve-order. */
  get order(): ReserveOrder {
    return this.count as ReserveOrder;
  }

  set order(order: ReserveOrder) {
    this.count = order;
  }

  /** The tube to which move-jobs moves, or `*`. */
  get target(): Span {
    return this.body;
  }

  /** The reason of a release or bury, decoded; empty if there is none. */
  get reason(): Span {
    return this.body;
  }

  /** The name that a client gives itself. */
  get name(): Span {
    return this.body;
  }

  /** The secret of auth. */
  get secret(): Span {
    return this.body;
  }

  /** Clears the struct and makes it a request for `op`. */
  begin(op: number): this {
    this.op = op;
    this.flags = 0;
    this.counted = 0;
    this.id = 0;
    this.pri = 0;
    this.delaySeconds = 0;
    this.delayMillis = 0;
    this.ttrSeconds = 0;
    this.bodyBytes = 0;
    this.atMs = 0;
    this.timeoutMs = 0;
    this.count = 0;
    this.waitNumber = 0;
    this.meterBytes = 0;
    this.tube.clear();
    this.options.clear();
    this.body.clear();
    return this;
  }

  /** Makes this the put in `request`, without its body; copies its tube and options. */
  beginPut(request: Request): void {
    this.op = request.op;
    this.flags = 0;
    this.id = request.id;
    this.pri = request.pri;
    if (request.tube.end > request.tube.start) this.tube.copyOf(request.tube);
    else this.tube.clear();
    if (request.options.end > request.options.start) this.options.copyOf(request.options);
    else this.options.clear();
    this.delaySeconds = request.delaySeconds;
    this.delayMillis = request.delayMillis;
    this.ttrSeconds = request.ttrSeconds;
    this.bodyBytes = request.bodyBytes;
    this.atMs = request.atMs;
  }

  /** Returns a copy that stays valid, with bytes of its own. */
  clone(): Request {
    const copy = new Request();
    Object.assign(copy, this, { tube: copy.tube, options: copy.options, body: copy.body });
    copy.tube.copyOf(this.tube);
    copy.options.copyOf(this.options);
    copy.body.copyOf(this.body);
    return copy;
  }
}
