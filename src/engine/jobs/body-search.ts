// Looks for bytes in the bodies of jobs, a part of a body at a time, and each byte once (Knuth, Morris and Pratt).
//
// `Buffer.includes` is 20 times as fast where nothing is like the text, but takes 13 ns a byte where much is: 54 ms for 4 MB of
// "a" and "aab". Whoever chooses bodies and text must not decide how long the others wait; this takes 1 to 4 ns for any byte.
// And for a short body the call alone took 2 us.

import { assert } from "../../base/assert.ts";
import type { BodyArena } from "./body-arena.ts";

/** Bytes of a body that are looked through at once. */
const PART_BYTES = 64 * 1024;
/** Most bytes that may be looked for. */
export const SEARCHED_BYTES_MAX = 255;

/** What `BodySearch.search` says besides a position. */
export const FOUND = -1;

/** One for all walks of an engine: it keeps nothing from one call to the next. */
export class BodySearch {
  readonly #bodies: BodyArena;
  /** A part, and behind it what an occurrence that begins in it may need. Made at the first search. */
  #part: Uint8Array | undefined;
  /** The text of the last search, and for each of its beginnings how many bytes at its end are a beginning again. */
  #text: Uint8Array | undefined;
  readonly #borders = new Uint8Array(SEARCHED_BYTES_MAX);

  constructor(bodies: BodyArena) {
    this.#bodies = bodies;
  }

  /**
   * Looks for `text` in a body, at positions from `from` on, in up to `bytesMax` bytes, but in one byte at least. Returns
   * FOUND, or the first position that was not looked at; with `bodyBytes` it is nowhere.
   */
  search(body: number, bodyBytes: number, text: Uint8Array, from: number, bytesMax: number): number {
    const end = Math.min(bodyBytes, from + Math.max(1, bytesMax));
    for (let at = from; at < end; at += PART_BYTES) {
      const length = Math.min(PART_BYTES, end - at);
      if (this.#isIn(body, bodyBytes, text, at, length)) return FOUND;
    }
    return end;
  }

  /** Whether an occurrence begins at one of the `length` positions from `at` on. */
  #isIn(body: number, bodyBytes: number, text: Uint8Array, at: number, length: number): boolean {
    const partBytes = Math.min(length + text.length - 1, bodyBytes - at);
    if (partBytes < text.length) return false;
    const part = (this.#part ??= new Uint8Array(PART_BYTES + SEARCHED_BYTES_MAX));
    this.#bodies.read(body, at, part, 0, partBytes);
    if (text !== this.#text) this.#learn(text);
    return isWithin(part, partBytes, text, this.#borders);
  }

  #learn(text: Uint8Array): void {
    assert(text.length > 0 && text.length <= SEARCHED_BYTES_MAX, "a text that is looked for has its measure");
    const borders = this.#borders;
    this.#text = text;
    borders[0] = 0;
    for (let i = 1, border = 0; i < text.length; i++) {
      while (border > 0 && text[i] !== text[border]) border = borders[border - 1]!;
      if (text[i] === text[border]) border++;
      borders[i] = border;
    }
  }
}

function isWithin(part: Uint8Array, partBytes: number, text: Uint8Array, borders: Uint8Array): boolean {
  const last = text.length - 1;
  const first = text[0];
  for (let at = 0, matched = 0; at < partBytes; at++) {
    const byte = part[at];
    if (matched === 0) {
      // Almost always.
      if (byte !== first) continue;
    } else {
      while (matched > 0 && byte !== text[matched]) matched = borders[matched - 1]!;
      if (byte !== text[matched]) continue;
    }
    if (matched === last) return true;
    matched++;
  }
  return false;
}
