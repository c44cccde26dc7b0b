// What a shard keeps of one connection besides the engine's session: work that has to wait its turn.

import type { BatchLimits } from "../../engine/jobs/batch.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import type { Timer } from "../../engine/queues/timer-heap.ts";
import type { Session } from "../../engine/waiting/session.ts";
import type { Span } from "../../protocol/request.ts";
import type { DeferredMessages } from "./deferred-messages.ts";
import type { PartsCursor } from "./job-parts.ts";
import type { SlicedCommand } from "./sliced-command.ts";

/** A put whose body arrives in pieces. */
export interface IncomingPut {
  readonly job: NewJob;
  /** The tube that it named, or "". */
  readonly tube: string;
  readonly options: Span;
  /** Handle in the arena; EMPTY_BODY once it was given up. */
  body: number;
  receivedBytes: number;
  /** Memory ran out: the rest is dropped and the put refused. */
  failed: boolean;
}

interface LongAnswer {
  readonly session: ShardSession;
  /** ResponseFlags of every piece. */
  readonly flags: number;
  /** The last record when it began: if it is Durable, the record that it waits for. */
  readonly recordNumber: number;
}

/** A batch of jobs too long for one message, sent from their pinned bodies. */
export interface LongBatch extends LongAnswer {
  readonly parts: PartsCursor;
  /** It is for the acceptor, not for the client, and so does not wait for that to read. */
  readonly isGathered: boolean;
}

/** A reply too long for one message, sent from its pinned body as its client reads. */
export interface LongReply extends LongAnswer {
  readonly parts?: undefined;
  readonly body: number;
  readonly bodyBytes: number;
  /** The reply's first line. */
  readonly head: Uint8Array;
  /** Bytes sent of head, body and CR LF together. */
  sentBytes: number;
}

/** What a reserve-batch asks for. */
export interface BatchTerms {
  readonly limits: BatchLimits;
  readonly withTubes: boolean;
  /** Under which its client may abort it, or 0. */
  readonly number: number;
}

export class ShardSession {
  readonly engineSession: Session;
  /** Where its connection is; both change when that moves. */
  acceptor: number;
  connectionSlot: number;
  /** Messages that arrived while the session was in a command or its client had too much to read. */
  deferred: DeferredMessages | undefined;
  incoming: IncomingPut | undefined;
  longReply: LongReply | LongBatch | undefined;
  /** The batch that it asks or waits for; the job that ends its wait is answered as one. */
  batch: BatchTerms | undefined;
  /** Its client has said something behind all batches up to the one with this number; it wraps. */
  abortedTo = 0;
  /** The move of many jobs that it is in the middle of. */
  longMove: SlicedCommand | undefined;
  /** Its acceptor looks for the job of its command elsewhere. */
  isStrayed = false;
  /** Its connection is gone; it stays until its long moves are done. */
  ended = false;
  /** Number of the wait over several shards, and whether this shard counts it in current-waiting. */
  waitNumber = 0;
  leadsWait = false;
  /** Number of the look that its reserve waits for, or 0. */
  look = 0;
  /** It is not a reserve of this shard alone that waits for it, but one of the acceptor's. */
  looksForAcceptor = false;
  /** Queued to have its deferred messages run. */
  resuming = false;
  /** Its commands are costly: the next waits for its turn. See run-queue.ts, also for the two that follow. */
  isAside = false;
  turn: Timer<ShardSession> | undefined;
  workTag = 0;
  /** Bytes of replies sent, and of them read by the client; both wrap. See message/reply-credit.ts. */
  #sentBytes = 0;
  #readBytes = 0;

  constructor(engineSession: Session, acceptor: number, connectionSlot: number) {
    this.engineSession = engineSession;
    this.acceptor = acceptor;
    this.connectionSlot = connectionSlot;
  }

  isAborted(number: number): boolean {
    return number !== 0 && ((this.abortedTo - number) | 0) >= 0;
  }

  /** The batch is answered: an abort that is still on its way means nothing. */
  endBatch(): void {
    const { batch } = this;
    this.batch = undefined;
    if (batch !== undefined && batch.number !== 0 && !this.isAborted(batch.number))
      this.abortedTo = batch.number;
  }

  /** Bytes of replies that the client has not read, as far as is known here. */
  get unreadBytes(): number {
    return (this.#sentBytes - this.#readBytes) | 0;
  }

  sent(bytes: number): void {
    this.#sentBytes = (this.#sentBytes + bytes) | 0;
  }

  /** The acceptor tells what the client has read of what was sent since `beginReplies`. */
  read(bytes: number): void {
    this.#readBytes = bytes | 0;
  }

  /** All earlier commands are answered; so many bytes of their replies are not read. */
  beginReplies(unreadBytes: number): void {
    this.#sentBytes = unreadBytes | 0;
    this.#readBytes = 0;
  }
}
