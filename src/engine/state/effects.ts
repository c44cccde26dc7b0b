// The effects of an engine on the world, as calls. The shard turns them into messages and log
// records, a simulation into a list.

import type { TubeMeter } from "../tubes/tube.ts";
import type { Session } from "./session.ts";

/** Effects on clients. */
export interface ClientEffects {
  /** A waiting session got the job in `slot`; its wait is over. */
  reserved(session: Session, slot: number): void;
  /** A wait on this shard alone ended without a job. */
  timedOut(session: Session): void;
  deadlineSoon(session: Session): void;
  /** A wait over several shards may have to end; its acceptor must find out. */
  waitDue(session: Session): void;
  /**
   * Claims the waiting session for this shard; returns false if its wait is already over. Only for
   * `Waiting.Shared`.
   */
  claim(session: Session): boolean;
  /** Returns whether the wait of a `Waiting.Shared` session still lasts. */
  stillWaiting(session: Session): boolean;
  /** Returns a number greater than all before it on any shard: the creation order of a tube. */
  nextTubeSequence(): number;
}

/**
 * Takes the records that make changes durable. The engine calls it after each change in memory,
 * before the reply. Only an addition, such as a put, can be refused for lack of room: the log keeps
 * spare room for changes and deletes of existing jobs.
 */
export interface RecordSink {
  /** Called before a put; returns false if the disk is full, and the put must be refused. */
  roomForPut(): boolean;
  /**
   * Returns false if the put must be refused. Either the log became full in the middle of a long
   * record, which is withdrawn, or it is full and hasn't lent the id: then nothing was recorded.
   */
  put(slot: number): boolean;
  /** Returns whether one record has room for the job with a body of this size. */
  fitsOneRecord(slot: number, bodyBytes: number): boolean;
  /** Called instead of `put` for a job with another body, after `fitsOneRecord`. */
  replaced(slot: number): void;
  updated(slot: number): void;
  deleted(id: number): void;
  /**
   * Called instead of `deleted` for a member of a batch. The record also states how many members of
   * the batch have ended on this shard, so that no crash can separate the two.
   */
  ended(id: number, batch: number, done: number, failed: number): void;
  /**
   * Called instead of `deleted` for a job that is about to be removed while its unique key remains
   * for some time.
   */
  remembered(slot: number): void;
  /**
   * Called for a job that is about to leave its tube, where its unique key remains for some time.
   * Returns the id of the record, which no job has; 0 if the log is full, and the key is not kept.
   */
  left(slot: number): number;
}

/** Receives times and sizes for monitoring. */
export interface Meter {
  /** A job was ready for this time before a client reserved it. */
  waited(ms: number): void;
  /** Its holder released, buried or deleted a job after this time, or this time after a touch. */
  held(ms: number): void;
  /** A job was put with a body of this size. */
  stored(bodyBytes: number): void;
  /** Returns the meter of a new tube of this name. */
  of(name: string): TubeMeter | undefined;
}
