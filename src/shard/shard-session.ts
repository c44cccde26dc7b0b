// What a shard keeps of one connection besides the engine's session: work that has to wait its turn.

import type { Session } from "../engine/session.ts";
import type { MessageSource } from "../ring/message-source.ts";

/** A put whose body arrives in pieces. */
export interface IncomingPut {
  readonly id: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
  readonly bodyBytes: number;
  readonly createdAtMs: number;
  /** Handle in the arena; EMPTY_BODY once it was given up. */
  body: number;
  receivedBytes: number;
  /** Memory ran out: the rest is dropped and the put refused. */
  failed: boolean;
}

/** A reply too long for one message, sent from its pinned body as its client reads. */
export interface LongReply {
  readonly session: ShardSession;
  readonly body: number;
  readonly bodyBytes: number;
  /** The reply's first line. */
  readonly head: Uint8Array;
  /** ResponseFlags of every piece. */
  readonly flags: number;
  /** The last record when it began: if it is Durable, the record that it waits for. */
  readonly recordNumber: number;
  /** Bytes sent of head, body and CR LF together. */
  sentBytes: number;
  /** Bytes that may be sent before the next Credit. */
  creditBytes: number;
}

/** A kick of more jobs than one turn moves. */
export interface LongKick {
  /** Decided when it began: a kick never takes both kinds. */
  readonly buried: boolean;
  left: number;
  kicked: number;
  /** The last record before it. */
  readonly recordsBefore: number;
}

export class ShardSession {
  readonly engineSession: Session;
  readonly acceptor: number;
  readonly slot: number;
  /** Messages that arrived while the session waited for a job or a long reply was being sent. */
  readonly deferred: MessageSource[] = [];
  incoming: IncomingPut | undefined;
  longReply: LongReply | undefined;
  longKick: LongKick | undefined;
  /** Its connection is gone; it stays until its long moves are done. */
  ended = false;
  /** Number of the wait over several shards, and whether this shard counts it in current-waiting. */
  waitNumber = 0;
  leadsWait = false;
  /** Queued to have its deferred messages run. */
  resuming = false;

  constructor(engineSession: Session, acceptor: number, slot: number) {
    this.engineSession = engineSession;
    this.acceptor = acceptor;
    this.slot = slot;
  }
}
