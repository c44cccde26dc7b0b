// Parses one command line into a Request that is used again for the next: nothing is allocated.

import { HYPHEN, SPACE } from "../base/ascii.ts";
import { type CommandWords, commandWords, startsWith } from "./command-words.ts";
import { Args, COMMANDS, Op } from "./commands.ts";
import { NumberReader } from "./number-reader.ts";
import { Request } from "./request.ts";
import { isTubeName, tubeNameEnd } from "./tube-name.ts";

/** What a line is, besides its command. */
export const Syntax = {
  /** A command to execute. */
  Ok: 0,
  /** Answer BAD_FORMAT and count nothing. */
  BadFormat: 1,
  /** Answer BAD_FORMAT, but the command counts (a late error: put's trailing text, pause-tube's bad name). */
  BadFormatCounted: 2,
  /** Answer UNKNOWN_COMMAND. */
  Unknown: 3,
  /** A put over the size limit: swallow `bodyBytes + 2` bytes, then answer JOB_TOO_BIG. */
  TooBig: 4,
} as const;
export type Syntax = (typeof Syntax)[keyof typeof Syntax];

/** Parses lines one at a time; `request` holds what the last one said, and is overwritten by the next. */
export class CommandParser {
  readonly request: Request = new Request();
  readonly #number = new NumberReader();
  readonly #words: CommandWords = commandWords(COMMANDS);
  readonly #jobBytesMax: number;

  constructor(jobBytesMax: number) {
    this.#jobBytesMax = jobBytesMax;
  }

  /**
   * Parses `bytes[start, end)`, a line without its CR LF and without NUL bytes. The tube of the request is a
   * part of `bytes`. Its op is that of the word, also where the arguments are wrong.
   */
  parse(bytes: Uint8Array, start: number, end: number): Syntax {
    const words = this.#words[bytes[start]!];
    if (words !== undefined) {
      for (let i = 0; i < words.length; i++) {
        const word = words[i]!;
        if (!startsWith(bytes, start, end, word.bytes)) continue;
        this.request.begin(word.op);
        return this.#arguments(word.args, bytes, start + word.bytes.length, end);
      }
    }
    this.request.begin(Op.Unknown);
    return Syntax.Unknown;
  }

  #arguments(args: Args, bytes: Uint8Array, at: number, end: number): Syntax {
    const request = this.request;
    const number = this.#number;
    number.at = at;
    switch (args) {
      case Args.None:
        return at === end ? Syntax.Ok : Syntax.BadFormat;
      case Args.Id:
        return this.#ends(this.#id(bytes, end), end);
      case Args.IdPri:
        return this.#ends(this.#id(bytes, end) && this.#pri(bytes, end), end);
      case Args.IdPriDelay:
        return this.#ends(this.#id(bytes, end) && this.#pri(bytes, end) && this.#delay(bytes, end), end);
      case Args.Put:
        return this.#put(bytes, end);
      case Args.Bound:
        if (!number.readKickBound(bytes, end)) return Syntax.BadFormat;
        request.bound = number.value;
        return Syntax.Ok;
      case Args.Timeout:
        if (!number.readTimeout(bytes, end)) return Syntax.BadFormat;
        request.timeoutMs = number.value * 1000;
        return Syntax.Ok;
      case Args.Tube:
        if (!isTubeName(bytes, at, end)) return Syntax.BadFormat;
        request.tube.set(bytes, at, end);
        return Syntax.Ok;
      case Args.TubeDelay:
        return this.#tubeDelay(bytes, at, end);
      case Args.Ignored:
        return Syntax.Ok;
    }
  }

  /** What a line is that should end behind its numbers, `well` if these are. */
  #ends(well: boolean, end: number): Syntax {
    return well && this.#number.at === end ? Syntax.Ok : Syntax.BadFormat;
  }

  #id(bytes: Uint8Array, end: number): boolean {
    const well = this.#number.readU64(bytes, end);
    this.request.id = this.#number.value;
    return well;
  }

  #pri(bytes: Uint8Array, end: number): boolean {
    const well = this.#number.readU32(bytes, end);
    this.request.pri = this.#number.value;
    return well;
  }

  #delay(bytes: Uint8Array, end: number): boolean {
    const well = this.#number.readU32(bytes, end);
    this.request.delaySeconds = this.#number.value;
    return well;
  }

  // "put <pri> <delay> <ttr> <bytes>": numbers first, then the size limit, then trailing text
  // (protocol/README.md 3.1).
  #put(bytes: Uint8Array, end: number): Syntax {
    const request = this.request;
    const number = this.#number;
    if (!this.#pri(bytes, end) || !this.#delay(bytes, end)) return Syntax.BadFormat;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    request.ttrSeconds = number.value === 0 ? 1 : number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    request.bodyBytes = number.value;
    if (request.bodyBytes > this.#jobBytesMax) return Syntax.TooBig;
    return number.at === end ? Syntax.Ok : Syntax.BadFormatCounted;
  }

  // The one command that tolerates blanks around its tube's name, and whose name is judged after it is
  // counted.
  #tubeDelay(bytes: Uint8Array, at: number, end: number): Syntax {
    let start = at;
    while (start < end && bytes[start] === SPACE) start++;
    const nameEnd = tubeNameEnd(bytes, start, end);
    if (nameEnd === start) return Syntax.BadFormat;
    this.#number.at = nameEnd;
    if (!this.#delay(bytes, end) || this.#number.at !== end) return Syntax.BadFormat;
    this.request.tube.set(bytes, start, nameEnd);
    if (bytes[start] === HYPHEN || !isTubeName(bytes, start, nameEnd)) return Syntax.BadFormatCounted;
    return Syntax.Ok;
  }
}
