// A command with its arguments, or another message to a shard: one struct that parser, ring and shard share.
//
// It is used again for each command, so that none is allocated; who fills it sets what the op needs, and who
// reads it reads no more. `message/request.ts` has the ops that are no commands, the flags, and how it looks
// in a ring.

import { copyBytes, latin1 } from "../base/bytes.ts";

const NO_BYTES = new Uint8Array(0);

/** A part of an array: `bytes[start, end)`. Whoever fills it says how long the bytes stay valid. */
export class Span {
  bytes: Uint8Array = NO_BYTES;
  start = 0;
  end = 0;
  /** What `copyOf` copies to, again and again. */
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
    this.set(NO_BYTES, 0, 0);
  }

  /** Makes it a copy of another, with bytes of its own, which are overwritten by the next copy. */
  copyOf({ bytes, start, end }: Span): void {
    const length = end - start;
    if (length > this.#own.length) this.#own = new Uint8Array(length);
    copyBytes(this.#own, 0, bytes, start, length);
    this.set(this.#own, 0, length);
  }

  /** Copies the bytes to `target[at]`; returns the position behind them. */
  copyTo(target: Uint8Array, at: number): number {
    const length = this.end - this.start;
    copyBytes(target, at, this.bytes, this.start, length);
    return at + length;
  }
}

export class Request {
  /** An Op, or a RequestOp. */
  op = 0;
  /** RequestFlags. */
  flags = 0;
  /** The Op that counts when the shard executes this, or 0. */
  counted = 0;
  /** Slot of the connection at its acceptor. */
  slot = 0;
  /** Job id; 0 for one that no job can have. Of Take with `pri`: a better job than this is taken. */
  id = 0;
  pri = 0;
  /** Of put, release and pause-tube. */
  delaySeconds = 0;
  /** What an extension's delay has besides its seconds: 0 to 999 ms. */
  delayMillis = 0;
  ttrSeconds = 0;
  /** Size of a put's whole body, without its CR LF. */
  bodyBytes = 0;
  /** When a put was read, and when a shared wait times out, in monotonic ms. */
  atMs = 0;
  /** How long a reserve waits at most, in ms; Infinity for ever. */
  timeoutMs = 0;
  /** How many jobs a kick moves at most; tubes watched after a watch or ignore. */
  count = 0;
  /** Number of a shared wait. */
  waitNumber = 0;
  /** Bytes of replies that the client has read: see message/reply-credit.ts. */
  readBytes = 0;
  readonly tube: Span = new Span();
  /** What options say: see options.ts. Its length is a multiple of 4. */
  readonly options: Span = new Span();
  /** The body, a piece of it, or the bytes of a reply that goes around. */
  readonly body: Span = new Span();

  /** Makes it a request for `op` and nothing else. */
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
    this.readBytes = 0;
    this.tube.clear();
    this.options.clear();
    this.body.clear();
    return this;
  }

  /** Makes it the put that `request` says, without its body; its tube and options are copied. */
  beginPut(request: Request): void {
    this.op = request.op;
    this.flags = 0;
    this.id = request.id;
    this.pri = request.pri;
    this.tube.copyOf(request.tube);
    this.options.copyOf(request.options);
    this.delaySeconds = request.delaySeconds;
    this.delayMillis = request.delayMillis;
    this.ttrSeconds = request.ttrSeconds;
    this.bodyBytes = request.bodyBytes;
    this.atMs = request.atMs;
  }

  /** A copy that stays valid, with bytes of its own. */
  clone(): Request {
    const copy = new Request();
    Object.assign(copy, this, { tube: copy.tube, options: copy.options, body: copy.body });
    copy.tube.copyOf(this.tube);
    copy.options.copyOf(this.options);
    copy.body.copyOf(this.body);
    return copy;
  }
}
