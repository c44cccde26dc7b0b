// The options of a command as they travel to a shard: for each its tag, the length of its value,
// and the value.
//
//   uint8 tag, uint8 length, value: a number is a little-endian float64, a text its bytes
//
// Zeros pad the whole to a multiple of 4 bytes.

import { copyBytes } from "../base/bytes.ts";
import { OPTIONS_BYTES_MAX, type OptionTag } from "./option-rows.ts";
import type { Span } from "./request.ts";

const NUMBER_BYTES = 8;
const HEAD_BYTES = 2;

/** Encodes the options of one command after another. */
export class OptionWriter {
  readonly #bytes = new Uint8Array(OPTIONS_BYTES_MAX);
  readonly #view = new DataView(this.#bytes.buffer);
  #end = 0;

  begin(): void {
    this.#end = 0;
  }

  has(tag: OptionTag): boolean {
    return valueAt(this.#bytes, 0, this.#end, tag) >= 0;
  }

  /** Appends a number; returns false if there is no room. */
  number(tag: OptionTag, value: number): boolean {
    if (!this.#head(tag, NUMBER_BYTES)) return false;
    this.#view.setFloat64(this.#end, value, true);
    this.#end += NUMBER_BYTES;
    return true;
  }

  /** Appends `bytes[start, end)`, at most 255 bytes; returns false if there is no room. */
  text(tag: OptionTag, bytes: Uint8Array, start: number, end: number): boolean {
    if (!this.#head(tag, end - start)) return false;
    copyBytes(this.#bytes, this.#end, bytes, start, end - start);
    this.#end += end - start;
    return true;
  }

  #head(tag: OptionTag, length: number): boolean {
    if (this.#end + HEAD_BYTES + length > OPTIONS_BYTES_MAX) return false;
    this.#bytes[this.#end++] = tag;
    this.#bytes[this.#end++] = length;
    return true;
  }

  /** Sets `into` to the options written since `begin`; they stay valid until the next `begin`. */
  finish(into: Span): void {
    while (this.#end % 4 !== 0) this.#bytes[this.#end++] = 0;
    into.set(this.#bytes, 0, this.#end);
  }
}

/**
 * Returns the value of a number, a duration in ms, a word or words; undefined if the option is
 * missing.
 */
export function optionNumber(options: Span, tag: OptionTag): number | undefined {
  const at = valueAt(options.bytes, options.start, options.end, tag);
  return at < 0 ? undefined : numberAt(options.bytes, at);
}

export function numberAt(bytes: Uint8Array, at: number): number {
  // A view of the bytes in place would be a new object each time.
  for (let i = 0; i < NUMBER_BYTES; i++) numberBytes[i] = bytes[at + i]!;
  return numberView.getFloat64(0, true);
}
const numberBytes = new Uint8Array(NUMBER_BYTES);
const numberView = new DataView(numberBytes.buffer);

/** Returns the bytes of a text, valid as long as `options`; undefined if the option is missing. */
export function optionText(options: Span, tag: OptionTag): Uint8Array | undefined {
  const at = valueAt(options.bytes, options.start, options.end, tag);
  return at < 0 ? undefined : options.bytes.subarray(at, at + options.bytes[at - 1]!);
}

/**
 * Returns where the value of the option at `at` begins, or -1 if there is none. The two bytes
 * before the value are its tag and its length. For puts, which read all options in one pass.
 */
export function nextOption(bytes: Uint8Array, at: number, end: number): number {
  return at + HEAD_BYTES <= end && bytes[at] !== 0 ? at + HEAD_BYTES : -1;
}

/** Returns where the value of an option begins in `bytes[start, end)`, or -1. */
function valueAt(bytes: Uint8Array, start: number, end: number, tag: OptionTag): number {
  for (let at = start; at + HEAD_BYTES <= end && bytes[at] !== 0; at += HEAD_BYTES + bytes[at + 1]!)
    if (bytes[at] === tag) return at + HEAD_BYTES;
  return -1;
}
