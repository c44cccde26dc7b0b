// Counts the bytes of replies that a connection got for the commands under way, and what its shard knows to
// be read.
//
// All counts wrap at 2^32; only differences matter. See message/reply-credit.ts.

import { ReplyCredit } from "../../message/reply-credit.ts";

export class ReplyMeter {
  #receivedBytes = 0;
  #toldBytes = 0;

  /** The first command goes out, with so many bytes of output that the client has not read. */
  begin(unreadBytes: number): void {
    this.#receivedBytes = unreadBytes;
    this.#toldBytes = 0;
  }

  /** A reply, or a part of one, has come. */
  received(bytes: number): void {
    this.#receivedBytes = (this.#receivedBytes + bytes) | 0;
  }

  /** What the client has read, if `unreadBytes` of its output are left. */
  read(unreadBytes: number): number {
    return (this.#receivedBytes - unreadBytes) | 0;
  }

  /** The shard is told that so much was read. */
  told(bytes: number): void {
    this.#toldBytes = bytes;
  }

  /** Whether so much was read and not told that it is time. */
  isDue(readBytes: number): boolean {
    return ((readBytes - this.#toldBytes) | 0) >= ReplyCredit.StepBytes;
  }
}
