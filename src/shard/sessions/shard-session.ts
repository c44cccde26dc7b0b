// A shard's state of one connection besides the engine's session: work that has to wait its turn.

import { assert, CHECKED } from "../../base/assert.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import type { BatchLimits } from "../../engine/jobs/reserve-batch.ts";
import type { Timer } from "../../engine/queues/timer-heap.ts";
import type { Session } from "../../engine/waiting/session.ts";
import { ReplyCredit } from "../../message/reply-credit.ts";
import { ResponseFlag } from "../../message/response.ts";
import type { Span } from "../../protocol/request.ts";
import type { DeferredMessages } from "./deferred-messages.ts";
import type { PartsCursor } from "./job-parts.ts";
import type { SlicedCommand } from "./sliced-command.ts";

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
   * see run-queue.ts.
   */
  isAside = false;
  turn: Timer<ShardSession> | undefined;
  workTag = 0;
  /**
   * Reply bytes sent, and how many of them the client has read. Both wrap. See
   * message/reply-credit.ts.
   */
  #sentBytes = 0;
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
    return (this.#sentBytes - this.#readBytes) | 0;
  }

  /** ResponseFlag.HoldsJob if the client holds a job of this shard. */
  get holdsFlag(): number {
    return this.engineSession.held.size > 0 ? ResponseFlag.HoldsJob : 0;
  }

  /** Whether so much is unread that the next command has to wait. */
  get owesReading(): boolean {
    return ((this.#sentBytes - this.#readBytes) | 0) >= ReplyCredit.UnreadBytesMax;
  }

  sent(bytes: number): void {
    assert(bytes >= 0, "a reply has bytes");
    this.#sentBytes = (this.#sentBytes + bytes) | 0;
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
    assert(unreadBytes >= 0, "no more is read than was sent");
    this.#sentBytes = unreadBytes | 0;
    this.#readBytes = 0;
  }
}
