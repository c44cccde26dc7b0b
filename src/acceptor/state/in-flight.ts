// Commands in flight: their order on one connection, the shard that they go to, and which
// connections of a thread expect an answer.

import { assert } from "../../base/assert.ts";

/**
 * Maximum number of commands in flight. Each may have to wait in the shard, where it takes about 80
 * bytes.
 */
const WINDOW_COMMANDS = 256;
/** The limit while a reserve is in flight, which may wait for any length of time. */
const WINDOW_COMMANDS_RESERVING = 128;
/**
 * Limit on the bodies of puts in flight: with n commands in flight, a put is sent only if n times
 * its size is within the limit. That bounds the total to a few times this number, without a sum to
 * maintain.
 */
const PUT_BYTES_MAX = 128 * 1024;

/** The longest streak: an affinity that a few commands to other shards do not end. */
const SETTLED = 64;
/** How many commands of the streak a command to another shard cancels. */
const OTHERS_COUNT = 8;

/**
 * The commands in flight of one connection. They all belong to one shard, which answers them in
 * order.
 */
export class InFlight {
  /** The shard of the commands in flight or else of the last command; -1 before the first. */
  shard = -1;
  /** Commands sent and not answered. */
  underWay = 0;
  /** The reserves among them. The count may be too high until all are answered. */
  reservesUnderWay = 0;
  /**
   * Whether a reserve-job is in flight or has been since the last time that nothing was. Its job
   * may be on another shard.
   */
  mayHoldElsewhere = false;

  /** Returns whether a command for `shard` may be sent behind those in flight. */
  maySend(shard: number): boolean {
    if (this.underWay === 0) return true;
    const window = this.reservesUnderWay > 0 ? WINDOW_COMMANDS_RESERVING : WINDOW_COMMANDS;
    return this.shard === shard && this.underWay < window;
  }

  /**
   * Returns whether a put for `shard` may take its id now. It must not while a reserve in flight
   * may wait for a job.
   */
  mayPut(shard: number, bodyBytes: number): boolean {
    return this.reservesUnderWay === 0 && this.maySend(shard) && this.underWay * bodyBytes <= PUT_BYTES_MAX;
  }

  /**
   * Returns whether a command with this many bytes may be sent to `shard` now. The bytes may have
   * to wait there.
   */
  mayCarry(shard: number, bytes: number): boolean {
    return this.maySend(shard) && this.underWay * bytes <= PUT_BYTES_MAX;
  }

  sent(shard: number): void {
    this.shard = shard;
    this.underWay++;
  }

  /** Notes that the oldest command is answered. Returns whether nothing is in flight any more. */
  answered(): boolean {
    assert(this.underWay > 0, "only a command in flight is answered");
    this.underWay--;
    if (this.underWay > 0) return false;
    this.reservesUnderWay = 0;
    this.mayHoldElsewhere = false;
    return true;
  }
}

/** Detects whether nearly all recent commands of a connection went to one shard. */
export class ShardAffinity {
  /** The shard that most commands went to. */
  shard = -1;
  /** Commands to that shard, minus those that commands to others cancelled; at most SETTLED. */
  streak = 0;

  note(shard: number): void {
    if (shard === this.shard) {
      if (this.streak < SETTLED) this.streak++;
      return;
    }
    this.streak -= OTHERS_COUNT;
    if (this.streak > 0) return;
    this.shard = shard;
    this.streak = 1;
  }

  /** Restarts the count. */
  forget(): void {
    this.streak = 0;
  }
}

/** A connection, as PendingReplies sees it. */
export interface PendingReply {
  /** The polling epoch in which an answer was last expected, or -1. */
  expectsSince: number;
  /** The polling epoch in which it last sent a command. */
  askedSince: number;
}

/**
 * Connections that expect an answer at any moment. While there are any, the acceptor's thread polls
 * its rings instead of sleeping.
 *
 * These are connections with a command in flight that was sent since the thread last gave up
 * polling. All others wait for a job, and their answer rings the doorbell.
 */
export class PendingReplies {
  /** Connections that expect an answer. */
  expecting = 0;
  /** Connections that have sent a command in this epoch. */
  asking = 0;
  /** Incremented whenever the thread gives up polling. */
  #epoch = 0;

  /** Notes that the connection has sent a command. */
  expect(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) return;
    connection.expectsSince = this.#epoch;
    this.expecting++;
    if (connection.askedSince === this.#epoch) return;
    connection.askedSince = this.#epoch;
    this.asking++;
  }

  /** Returns whether the thread has stopped polling for the connection's answer. */
  hasGivenUp(connection: PendingReply): boolean {
    return connection.expectsSince !== this.#epoch;
  }

  /** Notes that the connection has nothing in flight any more. */
  expectNothing(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) this.expecting--;
    connection.expectsSince = -1;
  }

  /** Forgets a connection that leaves for another thread. */
  forget(connection: PendingReply): void {
    this.expectNothing(connection);
    if (connection.askedSince === this.#epoch) this.asking--;
    connection.askedSince = -1;
  }

  /** Treats every connection that expects an answer as one that waits for a job. */
  giveUp(): void {
    this.#epoch++;
    this.expecting = 0;
    this.asking = 0;
  }
}
