// The options of a command as they travel to a shard: for each its tag, the length of its value, and the value.
//
//   uint8 tag, uint8 length, bytes: a number is a float64, little-endian; a text is its bytes.
//   Zeros behind the last make the length of all a multiple of 4.

import { copyBytes } from "../base/bytes.ts";
import type { OptionTag } from "./option-rows.ts";
import { OPTIONS_BYTES_MAX } from "./option-rows.ts";
import type { Span } from "./request.ts";

const NUMBER_BYTES = 8;
const HEAD_BYTES = 2;

/** Puts options together, for one command after the other. */
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

  /** False if there is no room for it. */
  number(tag: OptionTag, value: number): boolean {
    if (!this.#head(tag, NUMBER_BYTES)) return false;
    this.#view.setFloat64(this.#end, value, true);
    this.#end += NUMBER_BYTES;
    return true;
  }

  /** The same for `bytes[start, end)`, at most 255 of them. */
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

  /** What was written since `begin`, valid until the next one. */
  finish(into: Span): void {
    while (this.#end % 4 !== 0) this.#bytes[this.#end++] = 0;
    into.set(this.#bytes, 0, this.#end);
  }
}

/** The value of a number, a duration in ms, a word or words, or undefined where the option is not there. */
export function optionNumber(options: Span, tag: OptionTag): number | undefined {
  const at = valueAt(options.bytes, options.start, options.end, tag);
  return at < 0 ? undefined : numberAt(options.bytes, at);
}

/** The same where its value begins at `at`. */
export function numberAt(bytes: Uint8Array, at: number): number {
  // A view of the bytes where they are would be a new object each time.
  for (let i = 0; i < NUMBER_BYTES; i++) numberBytes[i] = bytes[at + i]!;
  return numberView.getFloat64(0, true);
}
const numberBytes = new Uint8Array(NUMBER_BYTES);
const numberView = new DataView(numberBytes.buffer);

/** The bytes of a text, valid as long as `options`; undefined where the option is not there. */
export function optionText(options: Span, tag: OptionTag): Uint8Array | undefined {
  const at = valueAt(options.bytes, options.start, options.end, tag);
  return at < 0 ? undefined : options.bytes.subarray(at, at + options.bytes[at - 1]!);
}

/**
 * Where the value of the option at `at` begins in `bytes`, its length before it and before that its tag; -1 where there is none. A
 * put asks.
 */
export function nextOption(bytes: Uint8Array, at: number, end: number): number {
  return at + HEAD_BYTES <= end && bytes[at] !== 0 ? at + HEAD_BYTES : -1;
}

/** Where the value of an option begins in `bytes[start, end)`, or -1. */
function valueAt(bytes: Uint8Array, start: number, end: number, tag: OptionTag): number {
  for (let at = start; at + HEAD_BYTES <= end && bytes[at] !== 0; at += HEAD_BYTES + bytes[at + 1]!)
    if (bytes[at] === tag) return at + HEAD_BYTES;
  return -1;
}
