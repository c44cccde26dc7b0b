// The jobs that a client has reserved, as its replies show. A client whose token is limited to some
// tubes may use only these ids, because only a job's shard knows which tube the job is in.

import * as ascii from "../../base/ascii.ts";
import { RecentMap } from "../../base/recent-map.ts";

const { CR, LF, SPACE } = ascii;
/** Maximum number of ids kept; the oldest are forgotten first. */
const IDS_MAX = 100_000;
/** Longest first line of a reply with a body, apart from a tube name at its end. */
const LINE_BYTES_MAX = 300;
const ZERO = 48;

const RESERVED = Buffer.from("RESERVED ");
const FOUND = Buffer.from("FOUND ");
const OK = Buffer.from("OK ");

export class ReservedIds {
  readonly #ids = new RecentMap<number, true>(IDS_MAX);
  /** The beginning of an unfinished line. */
  readonly #line = Buffer.alloc(LINE_BYTES_MAX);
  #lineBytes = 0;
  /** Bytes of the current body still to come, including CR LF. */
  #bodyLeft = 0;

  has(id: number): boolean {
    return this.#ids.has(id);
  }

  forget(id: number): void {
    this.#ids.delete(id);
  }

  /** Forgets all ids, because the jobs were reserved under another token. */
  clear(): void {
    this.#ids.clear();
  }

  /** Scans replies, whole or in part, as they leave. */
  observe(bytes: Uint8Array, length: number): void {
    let at = 0;
    while (at < length) {
      if (this.#bodyLeft > 0) {
        const part = Math.min(this.#bodyLeft, length - at);
        this.#bodyLeft -= part;
        at += part;
        continue;
      }
      const byte = bytes[at++]!;
      if (byte === LF) this.#endLine();
      // Longer lines are truncated: only their beginning matters.
      else if (this.#lineBytes < LINE_BYTES_MAX) this.#line[this.#lineBytes++] = byte;
    }
  }

  #endLine(): void {
    const line = this.#line;
    const end =
      this.#lineBytes > 0 && line[this.#lineBytes - 1] === CR ? this.#lineBytes - 1 : this.#lineBytes;
    this.#lineBytes = 0;
    if (this.#begins(RESERVED, end)) {
      const id = this.#number(1, end);
      this.#bodyLeft = this.#number(2, end) + 2;
      this.#note(id);
    } else if (this.#begins(FOUND, end)) this.#bodyLeft = this.#number(2, end) + 2;
    else if (this.#begins(OK, end)) this.#bodyLeft = this.#number(1, end) + 2;
  }

  #begins(word: Uint8Array, end: number): boolean {
    if (end < word.length) return false;
    for (let i = 0; i < word.length; i++) if (this.#line[i] !== word[i]) return false;
    return true;
  }

  /** Returns the number after `blanks` spaces. */
  #number(blanks: number, end: number): number {
    let at = 0;
    for (let left = blanks; left > 0 && at < end; at++) if (this.#line[at] === SPACE) left--;
    let value = 0;
    for (; at < end && this.#line[at] !== SPACE; at++) value = value * 10 + this.#line[at]! - ZERO;
    return value;
  }

  #note(id: number): void {
    this.#ids.set(id, true);
  }
}
