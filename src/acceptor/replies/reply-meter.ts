// Counts the reply bytes that a connection received for its commands in flight, and how many of
// them its shard knows to be read.
//
// All counts wrap at 2^32; only differences matter. See message/reply-credit.ts.

import { ReplyCredit } from "../../message/reply-credit.ts";

export class ReplyMeter {
  #receivedBytes = 0;
  #toldBytes = 0;

  /**
   * Starts counting at the first command in flight, with `unreadBytes` of output that the client
   * has not read.
   */
  begin(unreadBytes: number): void {
    this.#receivedBytes = unreadBytes;
    this.#toldBytes = 0;
  }

  /** Counts a reply, or part of one. */
  received(bytes: number): void {
    this.#receivedBytes = (this.#receivedBytes + bytes) | 0;
  }

  /** Returns how much the client has read, if `unreadBytes` of the output remain. */
  read(unreadBytes: number): number {
    return (this.#receivedBytes - unreadBytes) | 0;
  }

  /** Notes how much the shard was told. */
  told(bytes: number): void {
    this.#toldBytes = bytes;
  }

  /** Returns whether enough has been read since then to tell the shard. */
  isDue(readBytes: number): boolean {
    return ((readBytes - this.#toldBytes) | 0) >= ReplyCredit.StepBytes;
  }
}
