// Parses the options at the end of an extension's line: `name=value`, each at most once, separated
// by blanks.

import * as ascii from "../base/ascii.ts";
import { asciiBytes, startsWith } from "../base/bytes.ts";
import { REASON_BYTES_MAX } from "./job-failure.ts";
import { U32_MAX } from "./limits.ts";
import { NumberReader } from "./number-reader.ts";
import {
  OPTION_NAME_BYTES_MAX,
  OPTION_VALUE_BYTES_MAX,
  OptionKind,
  type OptionRow,
  OptionTag,
} from "./option-rows.ts";
import { OptionWriter } from "./options.ts";
import { Span } from "./request.ts";
import { isTubeName } from "./tube-name.ts";

// Local constants, because each use of an imported one loads it again.
const {
  COLON,
  COMMA,
  DELETE,
  NINE,
  ZERO,
  DOT,
  EQUALS,
  HYPHEN,
  LOWER_A,
  LOWER_Z,
  PERCENT,
  SLASH,
  SPACE,
  UNDERSCORE,
} = ascii;

const REASON_NAME = asciiBytes("reason=");
const BLANK_REASON = asciiBytes(" reason=");

/** Returns whether these bytes of a release or bury contain the beginning of a reason. */
export function mayHaveReason(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++)
    if (bytes[at] === SPACE && startsWith(bytes, at, end, BLANK_REASON)) return true;
  return false;
}

/** The result of parsing the options of a line. */
export const OptionsSyntax = {
  Ok: 0,
  /** Reply BAD_FORMAT. */
  Bad: 1,
  /** Reply UNKNOWN_OPTION with the name in `unknown`. */
  Unknown: 2,
} as const;
export type OptionsSyntax = (typeof OptionsSyntax)[keyof typeof OptionsSyntax];

/** Parses one line after another; each command parser has its own. */
export class OptionParser {
  /** The name of the unknown option: a part of the line. */
  readonly unknown: Span = new Span();
  readonly #writer = new OptionWriter();
  readonly #number = new NumberReader();
  readonly #text = new Uint8Array(OPTION_VALUE_BYTES_MAX);
  readonly #reason = new Uint8Array(REASON_BYTES_MAX);

  /**
   * Parses the options in `bytes[at, end)` as `rows` describes them. The encoded options in `into`
   * stay valid until the next call. `schedule`, an argument of at most 200 bytes, precedes them.
   */
  parse(
    bytes: Uint8Array,
    at: number,
    end: number,
    rows: readonly OptionRow[],
    into: Span,
    schedule?: Span,
  ): OptionsSyntax {
    this.#writer.begin();
    if (schedule !== undefined)
      this.#writer.text(OptionTag.Schedule, schedule.bytes, schedule.start, schedule.end);
    let start = at;
    while (start < end) {
      const first = blanksEnd(bytes, start, end);
      if (first === start || first === end) return OptionsSyntax.Bad;
      const next = tokenEnd(bytes, first, end);
      const syntax = this.#option(bytes, first, next, rows);
      if (syntax !== OptionsSyntax.Ok) return syntax;
      start = next;
    }
    this.#writer.finish(into);
    return OptionsSyntax.Ok;
  }

  /**
   * Reads blanks and the option `reason` at the end of a release or bury. The decoded bytes in
   * `into` stay valid until the next call. Returns false for anything else.
   */
  reason(bytes: Uint8Array, at: number, end: number, into: Span): boolean {
    const start = blanksEnd(bytes, at, end);
    const valueAt = start + REASON_NAME.length;
    if (start === at || valueAt >= end || !startsWith(bytes, start, end, REASON_NAME)) return false;
    if (tokenEnd(bytes, valueAt, end) !== end) return false;
    const length = decode(bytes, valueAt, end, this.#reason);
    if (length < 0 || length > REASON_BYTES_MAX) return false;
    into.set(this.#reason, 0, length);
    return true;
  }

  #option(bytes: Uint8Array, start: number, end: number, rows: readonly OptionRow[]): OptionsSyntax {
    const nameEnd = optionNameEnd(bytes, start, end);
    if (nameEnd < 0) return OptionsSyntax.Bad;
    const row = rowNamed(rows, bytes, start, nameEnd);
    if (row === undefined) {
      this.unknown.set(bytes, start, nameEnd);
      return OptionsSyntax.Unknown;
    }
    const at = nameEnd + 1;
    if (end === at && row.mayBeEmpty === true && !this.#writer.has(row.tag))
      return this.#writer.text(row.tag, bytes, at, at) ? OptionsSyntax.Ok : OptionsSyntax.Bad;
    if (end === at || end - at > OPTION_VALUE_BYTES_MAX) return OptionsSyntax.Bad;
    if (row.repeats !== true && this.#writer.has(row.tag)) return OptionsSyntax.Bad;
    if (row.excludes !== undefined && this.#writer.has(row.excludes)) return OptionsSyntax.Bad;
    return this.#value(bytes, at, end, row) ? OptionsSyntax.Ok : OptionsSyntax.Bad;
  }

  #value(bytes: Uint8Array, at: number, end: number, row: OptionRow): boolean {
    switch (row.kind) {
      case OptionKind.Number:
        return this.#numberValue(bytes, at, end, row);
      case OptionKind.Duration:
        this.#number.at = at;
        return (
          this.#number.readDuration(bytes, end) &&
          this.#number.at === end &&
          this.#writer.number(row.tag, this.#number.value)
        );
      case OptionKind.Text: {
        const length = decode(bytes, at, end, this.#text);
        return length >= 0 && this.#writer.text(row.tag, this.#text, 0, length);
      }
      case OptionKind.Word: {
        const word = wordAt(bytes, at, end, row);
        return word >= 0 && this.#writer.number(row.tag, word);
      }
      case OptionKind.Words:
        return this.#wordsValue(bytes, at, end, row);
      case OptionKind.Key:
        return isPrintable(bytes, at, end) && this.#writer.text(row.tag, bytes, at, end);
      case OptionKind.Pair:
        return (
          isPair(bytes, at, end) && isPrintable(bytes, at, end) && this.#writer.text(row.tag, bytes, at, end)
        );
      case OptionKind.Rate:
        return this.#isRate(bytes, at, end) && this.#writer.text(row.tag, bytes, at, end);
      case OptionKind.Tube:
        return isTubeName(bytes, at, end) && this.#writer.text(row.tag, bytes, at, end);
    }
  }

  #isRate(bytes: Uint8Array, at: number, end: number): boolean {
    const number = this.#number;
    number.at = at;
    if (!number.readUpTo(bytes, end, U32_MAX) || number.value === 0 || bytes[number.at] !== SLASH)
      return false;
    number.at++;
    return number.readUpTo(bytes, end, U32_MAX) && number.value > 0 && number.at === end;
  }

  #numberValue(bytes: Uint8Array, at: number, end: number, row: OptionRow): boolean {
    const number = this.#number;
    number.at = at;
    const { min = 0, max = U32_MAX } = row;
    if (!number.readUpTo(bytes, end, max) || number.at !== end || number.value < min) return false;
    return this.#writer.number(row.tag, number.value);
  }

  #wordsValue(bytes: Uint8Array, at: number, end: number, row: OptionRow): boolean {
    let bits = 0;
    for (let start = at; start <= end; ) {
      let next = start;
      while (next < end && bytes[next] !== COMMA) next++;
      const word = wordAt(bytes, start, next, row);
      if (word < 0) return false;
      bits |= 1 << word;
      start = next + 1;
    }
    return this.#writer.number(row.tag, bits);
  }
}

/** Returns the end of the blanks in `bytes[at, end)`. */
function blanksEnd(bytes: Uint8Array, at: number, end: number): number {
  let position = at;
  while (position < end && bytes[position] === SPACE) position++;
  return position;
}

function tokenEnd(bytes: Uint8Array, at: number, end: number): number {
  let position = at;
  while (position < end && bytes[position] !== SPACE) position++;
  return position;
}

/**
 * Returns where the name before `=` ends, or -1 if the option has no name that a reply may echo.
 */
function optionNameEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && ((bytes[at]! >= LOWER_A && bytes[at]! <= LOWER_Z) || bytes[at] === HYPHEN)) at++;
  const isName = at > start && at - start <= OPTION_NAME_BYTES_MAX && bytes[at] === EQUALS && at < end;
  return isName ? at : -1;
}

function rowNamed(
  rows: readonly OptionRow[],
  bytes: Uint8Array,
  start: number,
  end: number,
): OptionRow | undefined {
  for (let i = 0; i < rows.length; i++) if (isName(bytes, start, end, rows[i]!.name)) return rows[i];
  return undefined;
}

function isName(bytes: Uint8Array, start: number, end: number, name: string): boolean {
  if (end - start !== name.length) return false;
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false;
  return true;
}

function isPrintable(bytes: Uint8Array, at: number, end: number): boolean {
  for (let i = at; i < end; i++) if (bytes[i]! < SPACE || bytes[i] === DELETE) return false;
  return true;
}

/** Returns whether these bytes begin with a name and a colon. */
function isPair(bytes: Uint8Array, at: number, end: number): boolean {
  let position = at;
  while (position < end && isNameByte(bytes[position]!)) position++;
  return position > at && bytes[position] === COLON && position < end;
}

function isNameByte(byte: number): boolean {
  const letter = byte | 0x20;
  if ((letter >= LOWER_A && letter <= LOWER_Z) || (byte >= ZERO && byte <= NINE)) return true;
  return byte === HYPHEN || byte === UNDERSCORE || byte === DOT;
}

function wordAt(bytes: Uint8Array, start: number, end: number, { words = [] }: OptionRow): number {
  return words.findIndex((word) => isName(bytes, start, end, word));
}

/**
 * Copies `bytes[at, end)` to `target` and decodes `%XX`. Returns the length, or -1 if it is not
 * valid text. Writes nothing beyond `target`, which may be shorter than the text.
 */
function decode(bytes: Uint8Array, at: number, end: number, target: Uint8Array): number {
  let length = 0;
  for (let position = at; position < end; position++) {
    const byte = bytes[position]!;
    if (byte < SPACE || byte === DELETE) return -1;
    if (byte !== PERCENT) target[length++] = byte;
    else {
      const value =
        position + 2 < end ? hexValue(bytes[position + 1]!) * 16 + hexValue(bytes[position + 2]!) : -1;
      if (value < 0) return -1;
      target[length++] = value;
      position += 2;
    }
  }
  return length;
}

/**
 * Returns the value of a hexadecimal digit. For other bytes, returns a number so low that no sum
 * with it is positive.
 */
function hexValue(byte: number): number {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? -1000 : digit;
}
