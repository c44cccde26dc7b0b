// The order of one connection's commands: all under way belong to one shard, which answers them in order.

import { assert } from "../../base/assert.ts";

/** Commands under way at most: each may have to wait in the shard, in some 80 bytes. */
const WINDOW_COMMANDS = 256;
/** The same with a reserve among them, which may wait for any time. */
const WINDOW_COMMANDS_RESERVING = 128;
/**
 * The bodies of puts under way: one is sent with n commands before it only if n times its size is no more
 * than this. So all of them together are a few times as much, without a sum that replies would have to be
 * subtracted from.
 */
const PUT_BYTES_MAX = 128 * 1024;

export class Lane {
  /** The shard of what is under way; of the last command, if nothing is. */
  shard = 0;
  /** Commands sent and not answered. */
  underWay = 0;
  /** Reserves among them, or a count that is too high until all are answered. */
  reservesUnderWay = 0;
  /** Whether a reserve-job is among them, or was until all are answered: its job may be on another shard by then. */
  mayHoldElsewhere = false;

  /** Whether a command for `shard` may be sent behind those under way. */
  maySend(shard: number): boolean {
    if (this.underWay === 0) return true;
    const window = this.reservesUnderWay > 0 ? WINDOW_COMMANDS_RESERVING : WINDOW_COMMANDS;
    return this.shard === shard && this.underWay < window;
  }

  /** Whether a put for `shard` may take its id now: behind a reserve that may wait for a job it must not. */
  mayPut(shard: number, bodyBytes: number): boolean {
    return this.reservesUnderWay === 0 && this.maySend(shard) && this.underWay * bodyBytes <= PUT_BYTES_MAX;
  }

  /** Whether a command with so many bytes behind it may be sent to `shard` now: they may have to wait there. */
  mayCarry(shard: number, bytes: number): boolean {
    return this.maySend(shard) && this.underWay * bytes <= PUT_BYTES_MAX;
  }

  sent(shard: number): void {
    this.shard = shard;
    this.underWay++;
  }

  /** The oldest command is answered. Returns whether nothing is under way any more. */
  answered(): boolean {
    assert(this.underWay > 0, "only a command under way is answered");
    this.underWay--;
    if (this.underWay > 0) return false;
    this.reservesUnderWay = 0;
    this.mayHoldElsewhere = false;
    return true;
  }
}
