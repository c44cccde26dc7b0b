// Converts tube names in messages to strings. A cache of recent names avoids a new string for each
// message.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Span } from "../../protocol/request.ts";

/** A power of two. */
const PLACES = 64;

export class TubeNames {
  readonly #kept: string[] = new Array<string>(PLACES).fill("");

  /** Returns the bytes as a Latin-1 string. */
  textOf(name: Span): string {
    const { bytes, start, end } = name;
    const length = end - start;
    if (CHECKED) assert(length >= 0 && end <= bytes.length, "a name lies in its message");
    if (length === 0) return "";
    // Names of similar tubes usually differ in their length or their last bytes.
    const place = (bytes[end - 1]! + bytes[start + (length >> 1)]! * 7 + length * 31) & (PLACES - 1);
    const kept = this.#kept[place]!;
    if (kept.length === length && isText(bytes, start, kept)) return kept;
    const text = name.text;
    this.#kept[place] = text;
    return text;
  }
}

function isText(bytes: Uint8Array, start: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false;
  return true;
}
