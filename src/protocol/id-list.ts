// Reads the ids of a delete-batch, one after the other.

import { SPACE } from "../base/ascii.ts";
import { latin1 } from "../base/bytes.ts";
import { NumberReader } from "./number-reader.ts";
import type { Span } from "./request.ts";

/** Ids that the parser has found well formed, in bytes that stay as long as they are read. */
export class IdList {
  /** The id that `next` came to; 0 for one that no job can have. */
  id = 0;
  /** Its bytes, as they were given. */
  start = 0;
  end: number;
  readonly #bytes: Uint8Array;
  readonly #last: number;
  readonly #number = new NumberReader();

  constructor({ bytes, start, end }: Span) {
    this.#bytes = bytes;
    this.end = start;
    this.#last = end;
  }

  /** Goes on to the next id; false if there is none. */
  next(): boolean {
    const number = this.#number;
    let at = this.end;
    while (at < this.#last && this.#bytes[at] === SPACE) at++;
    this.start = at;
    number.at = at;
    if (!number.readU64(this.#bytes, this.#last)) return false;
    this.id = number.value;
    this.end = number.at;
    return true;
  }

  /** The id as it was given. */
  get text(): string {
    return latin1(this.#bytes, this.start, this.end);
  }
}
