// Iterates over the ids of a delete-batch.

import { SPACE } from "../base/ascii.ts";
import { latin1 } from "../base/bytes.ts";
import { NumberReader } from "./number-reader.ts";
import type { Span } from "./request.ts";

/** Ids that the parser has validated, in bytes that stay valid during the iteration. */
export class IdList {
  /** The current id; 0 for an id that no job can have. */
  id = 0;
  /** Position of the id as the client wrote it. */
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

  /** Advances to the next id; returns false at the end. */
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

  /** The id as the client wrote it. */
  get text(): string {
    return latin1(this.#bytes, this.start, this.end);
  }
}
