// What an engine does to the world, as calls without answers (but for `claim`): the shard turns them into
// messages and log records, a simulation into a list.

import type { Session } from "./session.ts";

/** Effects on clients. */
export interface ClientEffects {
  /** A waiting session was given the job in `slot`; its wait is over. */
  reserved(session: Session, slot: number): void;
  /** A wait on this shard alone ended without a job. */
  timedOut(session: Session): void;
  deadlineSoon(session: Session): void;
  /** A wait over several shards may have to end: its acceptor must find out. */
  waitDue(session: Session): void;
  /**
   * Takes the waiting session for this shard; false if its wait is already over. Only for `Waiting.Shared`.
   */
  claim(session: Session): boolean;
  /** Whether the wait of a `Waiting.Shared` session still lasts. */
  stillWaiting(session: Session): boolean;
  /** A number greater than all before it on any shard: the creation order of a tube. */
  nextTubeSequence(): number;
}

/**
 * Takes the records that make a change durable, called after the change is made in memory and before its
 * reply is. Only a put may be refused for want of room: the log keeps a reserve for what changes or deletes a
 * job that it has.
 */
export interface RecordSink {
  /** Asked before a put; false if the disk is full, and the put must be refused. */
  roomForPut(): boolean;
  /**
   * False if the disk became full in the middle of a long record: it is taken back, and the put must be
   * refused.
   */
  put(slot: number): boolean;
  updated(slot: number): void;
  deleted(id: number): void;
  /** The job is about to be forgotten, and its unique key is not, for a while: instead of `deleted`. */
  remembered(slot: number): void;
}

/** The sink of a server without a log. */
export const NO_RECORDS: RecordSink = {
  roomForPut: () => true,
  put: () => true,
  updated() {},
  deleted() {},
  remembered() {},
};

/** Is told of times and sizes, for whoever watches the server. */
export interface Meter {
  /** A job was ready for so long before it was given to a client. */
  waited(ms: number): void;
  /** A job was released, buried or deleted by its holder at `nowMs`, whose reservation would have ended at `deadlineAtMs`. */
  held(deadlineAtMs: number, ttrSeconds: number, nowMs: number): void;
  /** A job was put with a body of this size. */
  stored(bodyBytes: number): void;
}
