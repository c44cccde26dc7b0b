// A shard's state of one connection besides the engine's session: work that has to wait its turn.

import { CR, LF } from "../../base/ascii.ts";
import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import type { BatchLimits } from "../../engine/batch-reserves.ts";
import { type BodyArena, EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import type { Timer } from "../../engine/queues/heaps.ts";
import type { Session } from "../../engine/state/session.ts";
import { requestOp } from "../../message/request.ts";
import { ReplyCredit, ResponseFlag } from "../../message/response.ts";
import type { Span } from "../../protocol/request.ts";
import type { MessageSource } from "../../ring/ring.ts";

// A command, or the end of a connection, that touches any number of jobs. It processes some in each
// turn of the shard, so that one client's million jobs don't delay all others.
//
// Other clients may see an intermediate state, with only part of the jobs processed, as if the
// client had sent many small commands. Each job changes atomically, and waiting clients are served
// job by job in either case. To add a kind, write a class in a file of its own and call
// `SlicedCommands.start` where the command is executed (or `join`, if it must not begin at once).

export interface SlicedCommand {
  /**
   * The job in transfer that the command waits for. It cannot continue before the engine reports on
   * that job. Undefined if it waits for none.
   */
  readonly awaitedJob?: number | undefined;
  /** Whether its job may have arrived without a report of the engine. */
  readonly mayEndUnheard?: boolean;
  /** The number of jobs that it would process now if there were no limit. */
  readonly jobs: number;
  /** Processes up to `jobsMax` jobs. Returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean;
  /** Called when nothing more is processed in this turn. */
  rest?(): void;
  /** Called when all jobs are done: answers, if there is an answer. */
  finish(): void;
}

// The deferred messages of one session, packed one after another into their own buffer.
//
// One object with views per message would take 900 bytes for a command of 8. Here a message takes
// as much as in the ring.

const NOTHING = new ArrayBuffer(0);
const FIRST_BYTES = 512;

export class DeferredMessages implements MessageSource {
  bytes: Uint8Array = new Uint8Array(NOTHING);
  int32: Int32Array = new Int32Array(NOTHING);
  uint32: Uint32Array = new Uint32Array(NOTHING);
  float64: Float64Array = new Float64Array(NOTHING);
  #start = 0;
  #end = 0;

  get isEmpty(): boolean {
    return this.#start === this.#end;
  }

  /** The op of the first message. There must be one. */
  get firstOp(): number {
    assert(this.#start < this.#end, "there is a first message");
    return requestOp(this, this.#start);
  }

  /** Appends a copy of the message at `offset` of `source`. */
  push(source: MessageSource, offset: number): void {
    const length = source.int32[offset >> 2]!;
    assert(length > 0 && (length & 7) === 0, "a message has a length in whole words");
    if (this.#end + length > this.bytes.length) this.#makeRoom(length);
    copyBytes(this.bytes, this.#end, source.bytes, offset, length);
    this.#end += length;
    assert(this.#end <= this.bytes.length, "a message fits into the buffer");
  }

  /**
   * Removes the first message and returns its offset. Its bytes stay valid until the next `push`.
   */
  shift(): number {
    assert(this.#start < this.#end, "a message that is taken was deferred");
    const offset = this.#start;
    this.#start += this.int32[offset >> 2]!;
    assert(this.#start <= this.#end, "a message ends before the next begins");
    return offset;
  }

  #makeRoom(more: number): void {
    const held = this.bytes.subarray(this.#start, this.#end);
    const needed = held.length + more;
    if (needed <= this.bytes.length) {
      this.bytes.copyWithin(0, this.#start, this.#end);
    } else {
      // Positions are addressed as int32 and float64, so the size is a multiple of 8.
      this.#use(new ArrayBuffer(Math.max(FIRST_BYTES, needed, 2 * this.bytes.length)));
      this.bytes.set(held);
    }
    this.#start = 0;
    this.#end = held.length;
    assert(this.#end + more <= this.bytes.length, "room that was made is enough");
  }

  #use(buffer: ArrayBuffer): void {
    this.bytes = new Uint8Array(buffer);
    this.int32 = new Int32Array(buffer);
    this.uint32 = new Uint32Array(buffer);
    this.float64 = new Float64Array(buffer);
  }
}

// A reply assembled from lines and bodies. The lines are packed into a buffer; the bodies stay in
// the arena.

/** Numbers per part: the end of its lines, the handle of its body, the size of the body. */
const PART = 3;
const BODY_END_BYTES = 2;

/** Parts of lines, each followed by a body and CR LF. The object is reused for every reply. */
export class JobParts {
  /** Total bytes of all parts. */
  bytes = 0;
  #lines = new Uint8Array(256);
  #lineBytes = 0;
  readonly #parts: number[] = [];

  begin(): void {
    this.bytes = 0;
    this.#lineBytes = 0;
    this.#parts.length = 0;
  }

  /** Adds bytes to the lines of the next part. Returns their position in `lines`. */
  line(bytes: Uint8Array, length: number = bytes.length): number {
    const at = this.#lineBytes;
    assert(length <= bytes.length, "a line is no longer than its source");
    this.#makeRoom(length);
    copyBytes(this.#lines, at, bytes, 0, length);
    this.#lineBytes += length;
    this.bytes += length;
    return at;
  }

  /** The lines so far, valid until more are added. */
  get lines(): Uint8Array {
    return this.#lines.subarray(0, this.#lineBytes);
  }

  /** Ends a part with a body. */
  body(handle: number, bodyBytes: number): void {
    assert(bodyBytes >= 0 && this.#lineBytes > 0, "a body follows a line");
    this.#parts.push(this.#lineBytes, handle, bodyBytes);
    this.bytes += bodyBytes + BODY_END_BYTES;
  }

  /**
   * Returns the parts for sending piece by piece. The bodies stay pinned until `PartsCursor.end`.
   */
  keep(bodies: BodyArena): PartsCursor {
    const cursor = new PartsCursor(
      bodies,
      this.#lines.slice(0, this.#lineBytes),
      Float64Array.from(this.#parts),
      this.bytes,
    );
    cursor.pin();
    return cursor;
  }

  /** Copies everything to `target[at]`. */
  copyTo(bodies: BodyArena, target: Uint8Array, at: number): void {
    assert(at + this.bytes <= target.length, "the parts fit into their target");
    new PartsCursor(bodies, this.#lines.subarray(0, this.#lineBytes), this.#parts, this.bytes).copy(
      target,
      at,
      this.bytes,
    );
  }

  #makeRoom(more: number): void {
    const needed = this.#lineBytes + more;
    if (needed <= this.#lines.length) return;
    const larger = new Uint8Array(Math.max(needed, this.#lines.length * 2));
    larger.set(this.#lines.subarray(0, this.#lineBytes));
    this.#lines = larger;
  }
}

/** Reads parts from the first byte to the last. */
export class PartsCursor {
  /** Bytes still to be read. */
  leftBytes: number;
  readonly #bodies: BodyArena;
  readonly #lines: Uint8Array;
  readonly #parts: ArrayLike<number>;
  /**
   * The current part: its index in the numbers, the start of its lines, and how much of it was
   * read.
   */
  #part = 0;
  #linesAt = 0;
  #readBytes = 0;

  constructor(bodies: BodyArena, lines: Uint8Array, parts: ArrayLike<number>, bytes: number) {
    assert(parts.length % PART === 0, "each part has its three numbers");
    this.#bodies = bodies;
    this.#lines = lines;
    this.#parts = parts;
    this.leftBytes = bytes;
  }

  pin(): void {
    for (let part = 0; part < this.#parts.length; part += PART) this.#bodies.pin(this.#parts[part + 1]!);
  }

  /** Unpins the bodies. */
  end(): void {
    assert(this.#part <= this.#parts.length, "a cursor stays within its parts");
    for (let part = 0; part < this.#parts.length; part += PART) this.#bodies.unpin(this.#parts[part + 1]!);
  }

  /** Copies the next `length` bytes to `target[at]`. The caller ensures that they exist. */
  copy(target: Uint8Array, at: number, length: number): void {
    assert(length <= this.leftBytes, "no more is read than is left");
    this.leftBytes -= length;
    for (let done = 0; done < length; ) done += this.#copySome(target, at + done, length - done);
  }

  /** Copies the next contiguous bytes of the current part. Returns how many. */
  #copySome(target: Uint8Array, at: number, length: number): number {
    const parts = this.#parts;
    if (this.#part === parts.length) return this.#copyLines(target, at, length, this.#lines.length);
    const linesEnd = parts[this.#part]!;
    assert(linesEnd >= this.#linesAt, "the lines of a part follow those of the part before");
    const lineBytes = linesEnd - this.#linesAt;
    if (this.#readBytes < lineBytes) return this.#copyLines(target, at, length, linesEnd);
    const bodyBytes = parts[this.#part + 2]!;
    const offset = this.#readBytes - lineBytes;
    if (offset < bodyBytes) {
      const some = Math.min(length, bodyBytes - offset);
      assert(some > 0, "each step reads a part of the lines");
      const handle = parts[this.#part + 1]!;
      if (handle !== EMPTY_BODY) this.#bodies.read(handle, offset, target, at, some);
      this.#readBytes += some;
      return some;
    }
    const isLast = offset === bodyBytes + 1;
    target[at] = isLast ? LF : CR;
    this.#readBytes++;
    if (isLast) {
      this.#part += PART;
      this.#linesAt = linesEnd;
      this.#readBytes = 0;
    }
    return 1;
  }

  #copyLines(target: Uint8Array, at: number, length: number, end: number): number {
    const from = this.#linesAt + this.#readBytes;
    const some = Math.min(length, end - from);
    assert(some > 0, "each step reads a part of the lines or of a body");
    copyBytes(target, at, this.#lines, from, some);
    this.#readBytes += some;
    return some;
  }
}

/** A put whose body arrives in pieces. */
interface IncomingPut {
  readonly job: NewJob;
  /** The tube that it named, or "". */
  readonly tube: string;
  readonly options: Span;
  /** Handle in the arena; EMPTY_BODY after the body was freed. */
  body: number;
  receivedBytes: number;
  /** Memory ran out: the rest is dropped and the put is refused. */
  failed: boolean;
}

interface LongAnswer {
  readonly session: ShardSession;
  /** The ResponseFlag bits of every piece. */
  readonly flags: number;
  /**
   * The last record when the answer began. If the flags include Durable, the answer waits for that
   * record.
   */
  readonly recordNumber: number;
  /** Called when the client has read more. */
  readonly onRead: () => void;
}

/** A batch of jobs too long for one message, sent from pinned bodies. */
export interface LongBatch extends LongAnswer {
  readonly parts: PartsCursor;
  /**
   * Whether it goes to the acceptor instead of the client. It then does not wait for the client to
   * read.
   */
  readonly isGathered: boolean;
}

/** A reply too long for one message, sent from its pinned body as the client reads. */
export interface LongReply extends LongAnswer {
  readonly parts?: undefined;
  readonly body: number;
  readonly bodyBytes: number;
  /** The reply's first line. */
  readonly head: Uint8Array;
  /** Bytes sent of head, body and CR LF together. */
  sentBytes: number;
}

/** The request of a reserve-batch. */
export interface BatchTerms {
  readonly limits: BatchLimits;
  /** Some of BATCH_DETAILS. */
  readonly details: number;
  /** The number under which its client may abort it, or 0. */
  readonly number: number;
}

export class ShardSession {
  readonly engineSession: Session;
  /** The location of its connection. Both fields change when the connection moves. */
  acceptor: number;
  connectionSlot: number;
  /**
   * Messages that arrived while the session was executing a command or its client had too much to
   * read.
   */
  deferred: DeferredMessages | undefined;
  incoming: IncomingPut | undefined;
  longReply: LongReply | LongBatch | undefined;
  /** The batch in progress. The job that ends its wait is answered as a batch. */
  batch: BatchTerms | undefined;
  /** The client's bytes have aborted all batches up to this number, which wraps. */
  abortedTo = 0;
  /** The sliced command in progress. */
  slicedCommand: SlicedCommand | undefined;
  /** Its acceptor is looking for the job of its command on other shards. */
  isRedirected = false;
  /** Its connection is gone. The session stays until its sliced commands are done. */
  ended = false;
  /**
   * The number of its wait over several shards, and whether this shard counts it in
   * current-waiting.
   */
  waitNumber = 0;
  leadsWait = false;
  /** The number of the read barrier that its command waits for, or 0. */
  barrier = 0;
  /** The command that runs after the barrier, if it is not a reserve. */
  afterBarrier: (() => void) | undefined;
  /** Whether the acceptor waits for that barrier, rather than a reserve on this shard alone. */
  barrierForAcceptor = false;
  /** It is queued to have its deferred messages run. */
  resuming = false;
  /**
   * Its commands are expensive, so the next one waits for its turn. For this field and the next two
   * see shard-core.ts.
   */
  isAside = false;
  turn: Timer<ShardSession> | undefined;
  workTag = 0;
  /**
   * Reply bytes sent, and how many of them the client has read. Both wrap. See
   * message/response.ts.
   */
  sentBytes = 0;
  #readBytes = 0;

  constructor(engineSession: Session, acceptor: number, connectionSlot: number) {
    assert(acceptor >= 0 && connectionSlot >= 0, "a connection has a place");
    this.engineSession = engineSession;
    this.acceptor = acceptor;
    this.connectionSlot = connectionSlot;
  }

  isAborted(number: number): boolean {
    return number !== 0 && ((this.abortedTo - number) | 0) >= 0;
  }

  /** Ends the batch, because it is answered. An abort that arrives later has no effect. */
  endBatch(): void {
    const { batch } = this;
    this.batch = undefined;
    if (batch !== undefined && batch.number !== 0 && !this.isAborted(batch.number))
      this.abortedTo = batch.number;
  }

  /** Reply bytes that the client has not read, as far as this shard knows. */
  get unreadBytes(): number {
    return (this.sentBytes - this.#readBytes) | 0;
  }

  /** ResponseFlag.HoldsJob if the client holds a job of this shard. */
  get holdsFlag(): number {
    return this.engineSession.held.size > 0 ? ResponseFlag.HoldsJob : 0;
  }

  /** Whether so much is unread that the next command has to wait. */
  get owesReading(): boolean {
    return ((this.sentBytes - this.#readBytes) | 0) >= ReplyCredit.UnreadBytesMax;
  }

  /** Notes how much the client has read of what was sent since `beginReplies`. */
  read(bytes: number): void {
    if (CHECKED) assert(Number.isInteger(bytes), "a client reads whole bytes");
    this.#readBytes = bytes | 0;
    this.longReply?.onRead();
  }

  /**
   * Restarts the counts: all earlier commands are answered, and `unreadBytes` of their replies are
   * unread.
   */
  beginReplies(unreadBytes: number): void {
    this.sentBytes = unreadBytes | 0;
    this.#readBytes = 0;
  }
}

// Sessions of connections that move between acceptors. Each is kept under the number of its move
// until it is adopted.
//
// Detach comes from the acceptor that the connection leaves, and Adopt from its new acceptor,
// through a different ring. Neither acceptor waits for the shard, so Adopt may be read first. The
// shard then reads nothing more from that ring until Detach has arrived, because the next messages
// may be commands of this session. The wait is short: Detach was sent before the connection.

/** An Adopt that waits for its Detach. */
interface Adoption {
  readonly number: number;
  readonly slot: number;
}

export class Adoptions {
  /** By the number of the move. */
  readonly #detached = new Map<number, ShardSession>();
  /** By port; undefined if none waits. */
  readonly #waiting: (Adoption | undefined)[];
  /** Adopts that wait. */
  waitingCount = 0;
  readonly #place: (session: ShardSession, port: number, slot: number) => void;

  /** `place` assigns a session to a slot of a port. */
  constructor(ports: number, place: (session: ShardSession, port: number, slot: number) => void) {
    this.#waiting = Array.from({ length: ports }, () => undefined);
    this.#place = place;
  }

  /** Returns whether nothing may be taken from the ring of a port. */
  isWaiting(port: number): boolean {
    assert(port < this.#waiting.length, "a port of the shard takes sessions");
    return this.#waiting[port] !== undefined;
  }

  /** Takes a session that has lost its slot. */
  detached(number: number, session: ShardSession): void {
    assert(!this.#detached.has(number), "a move has a number of its own");
    const port = this.waitingCount === 0 ? -1 : this.#waiting.findIndex((each) => each?.number === number);
    if (port < 0) {
      this.#detached.set(number, session);
      return;
    }
    const { slot } = this.#waiting[port]!;
    this.#waiting[port] = undefined;
    this.waitingCount--;
    assert(this.waitingCount >= 0, "Adopts that wait are counted");
    this.#place(session, port, slot);
  }

  /** Gives a session its new slot, now or when it has lost the old one. */
  adopt(number: number, port: number, slot: number): void {
    const session = this.#detached.get(number);
    if (session === undefined) {
      assert(this.#waiting[port] === undefined, "nothing is taken after an Adopt that waits");
      this.#waiting[port] = { number, slot };
      this.waitingCount++;
      assert(this.waitingCount <= this.#waiting.length, "a port waits for one Adopt");
      return;
    }
    this.#detached.delete(number);
    this.#place(session, port, slot);
  }
}
