// Looks for bytes in the bodies of jobs, a part of a body at a time.

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
  #part: Buffer | undefined;

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
    const part = (this.#part ??= Buffer.allocUnsafe(PART_BYTES + SEARCHED_BYTES_MAX));
    const partBytes = Math.min(length + text.length - 1, bodyBytes - at);
    if (partBytes < text.length) return false;
    this.#bodies.read(body, at, part, 0, partBytes);
    return part.subarray(0, partBytes).includes(text as Buffer);
  }
}
