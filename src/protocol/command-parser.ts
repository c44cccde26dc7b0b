// Parses command lines into one reused Request, without allocating.

import * as ascii from "../base/ascii.ts";
import { asciiBytes, startsWith } from "../base/bytes.ts";
import { Args, COMMANDS, type Command, FIELDS, type Field, Op } from "./commands.ts";
import { WORKER_BYTES_MAX } from "./job-failure.ts";
import { BATCH_JOBS_MAX, EXTENSION_LINE_BYTES_MAX, LINE_BYTES_MAX } from "./limits.ts";
import { NumberReader } from "./number-reader.ts";
import { mayHaveReason, OptionParser, OptionsSyntax } from "./option-parser.ts";
import { OPTION_VALUE_BYTES_MAX, type OptionRow, REASON_OPTIONS } from "./option-rows.ts";
import { RESERVE_ORDER_WORDS, Request, type ReserveOrder } from "./request.ts";
import { isEveryTube, isTubeName, isTubePattern, tubeNameEnd } from "./tube-name.ts";

// A lookup table from the first bytes of a line to its command.

interface CommandWord {
  readonly bytes: Uint8Array;
  readonly op: Op;
  readonly args: Args;
  readonly isExtension: boolean;
  readonly options: readonly OptionRow[] | undefined;
  readonly needsOption: boolean;
  /** Whether a reason may make the line longer than beanstalkd's. */
  readonly takesReason: boolean;
}

/**
 * For each first byte, the words that begin with it, in the order in which the parser tries them.
 */
type CommandWords = readonly (readonly CommandWord[] | undefined)[];

/**
 * Returns the words of a command table in its order, except that a word comes after any longer word
 * that begins with it.
 */
export function commandWords(commands: readonly Command[]): CommandWords {
  const byFirstByte: (CommandWord[] | undefined)[] = new Array(256).fill(undefined);
  for (const { word, op, args, extension, options, needsOption } of commands) {
    const bytes = asciiBytes(word);
    const words = (byFirstByte[bytes[0]!] ??= []);
    const shorter = words.findIndex((each) => startsWith(bytes, 0, bytes.length, each.bytes));
    words.splice(shorter < 0 ? words.length : shorter, 0, {
      bytes,
      op,
      args,
      isExtension: extension === true,
      options,
      needsOption: needsOption === true,
      takesReason: options === REASON_OPTIONS,
    });
  }
  return byFirstByte;
}

// Local constants, because each use of an imported one loads it again.
const { DELETE, HYPHEN, SPACE } = ascii;

const ORDER_WORDS = RESERVE_ORDER_WORDS.map(asciiBytes);

/** The result of parsing a line, apart from its command. */
export const Syntax = {
  /** Execute the command. */
  Ok: 0,
  /** Reply BAD_FORMAT and count nothing. */
  BadFormat: 1,
  /**
   * Reply BAD_FORMAT, but count the command. For late errors: trailing text of a put, a bad name in
   * pause-tube.
   */
  BadFormatCounted: 2,
  /** Reply UNKNOWN_COMMAND. */
  Unknown: 3,
  /** A put over the size limit: discard `bodyBytes + 2` bytes, then reply JOB_TOO_BIG. */
  TooBig: 4,
  /**
   * An extension's option is malformed: reply BAD_FORMAT. If the command has a body, count the
   * command and discard the body first.
   */
  BadOption: 5,
  /**
   * The same, but the option is unknown: reply UNKNOWN_OPTION with the parser's `unknownOption`.
   */
  UnknownOption: 6,
} as const;
export type Syntax = (typeof Syntax)[keyof typeof Syntax];

/** Parses one line at a time; `request` holds the latest result until the next call. */
export class CommandParser {
  readonly request: Request = new Request();
  readonly #number = new NumberReader();
  readonly #words: CommandWords;
  readonly #options = new OptionParser();
  readonly #jobBytesMax: number;

  /** Accepts `commands` and no other words. */
  constructor(jobBytesMax: number, commands: readonly Command[] = COMMANDS) {
    this.#jobBytesMax = jobBytesMax;
    this.#words = commandWords(commands);
  }

  /** Returns the length limit, including CR LF, of the line that `bytes[start, end)` begins. */
  lineBytesMax(bytes: Uint8Array, start: number, end: number): number {
    const word = this.#wordOf(bytes, start, end);
    if (word === undefined) return LINE_BYTES_MAX;
    const mayBeLong = word.isExtension || (word.takesReason && mayHaveReason(bytes, start, end));
    return mayBeLong ? EXTENSION_LINE_BYTES_MAX : LINE_BYTES_MAX;
  }

  /** The name of the unknown option in the last line. */
  get unknownOption(): string {
    return this.#options.unknown.text;
  }

  /**
   * Parses `bytes[start, end)`, a line without its CR LF and without NUL bytes. The request's tube
   * refers to `bytes`. The request's op is that of the command word, even if the arguments are
   * malformed.
   */
  parse(bytes: Uint8Array, start: number, end: number): Syntax {
    const word = this.#wordOf(bytes, start, end);
    if (word === undefined) {
      this.request.begin(Op.Unknown);
      return Syntax.Unknown;
    }
    this.request.begin(word.op);
    const at = start + word.bytes.length;
    if (word.args === Args.Put) return this.#put(bytes, at, end);
    if (word.isExtension) return this.#extension(word, bytes, at, end);
    return this.#arguments(word, bytes, at, end);
  }

  /** Returns the command word that `bytes[start, end)` begins with, if any. */
  #wordOf(bytes: Uint8Array, start: number, end: number): CommandWord | undefined {
    const words = this.#words[bytes[start]!];
    if (words === undefined) return undefined;
    for (let i = 0; i < words.length; i++) {
      const word = words[i]!;
      if (startsWith(bytes, start, end, word.bytes)) return word;
    }
    return undefined;
  }

  #arguments({ args, options }: CommandWord, bytes: Uint8Array, at: number, end: number): Syntax {
    const request = this.request;
    const number = this.#number;
    number.at = at;
    switch (args) {
      case Args.None:
        return at === end ? Syntax.Ok : Syntax.BadFormat;
      case Args.Id:
        return this.#ends(this.#id(bytes, end), end);
      case Args.IdPri:
        return this.#mayGiveReason(this.#id(bytes, end) && this.#pri(bytes, end), options, bytes, end);
      case Args.IdPriDelay:
        return this.#mayGiveReason(
          this.#id(bytes, end) && this.#pri(bytes, end) && this.#delay(bytes, end),
          options,
          bytes,
          end,
        );
      case Args.Bound:
        if (!number.readKickBound(bytes, end)) return Syntax.BadFormat;
        request.count = number.value;
        return Syntax.Ok;
      case Args.Timeout:
        if (!number.readTimeout(bytes, end)) return Syntax.BadFormat;
        request.timeoutMs = number.value * 1000;
        return Syntax.Ok;
      case Args.Tube:
        if (!isTubeName(bytes, at, end)) return this.#tubeWeight(options, bytes, at, end);
        request.tube.set(bytes, at, end);
        return Syntax.Ok;
      case Args.TubeDelay:
        return this.#tubeDelay(bytes, at, end);
      case Args.Ignored:
        return Syntax.Ok;
      case Args.Secret:
        return this.#secret(bytes, at, end);
      default:
        throw new Error("broken invariant: these arguments are an extension's");
    }
  }

  // Reads the arguments, checks the size limit, then reads the options. A malformed option is
  // reported only after the body size is known (protocol/README.md 18.1).
  #extension(
    { args, options, needsOption }: CommandWord,
    bytes: Uint8Array,
    at: number,
    end: number,
  ): Syntax {
    const { request } = this;
    const number = this.#number;
    number.at = at;
    const isValid = args === Args.TubePut ? this.#tubePut(bytes, end) : this.#fields(args, bytes, end);
    if (!isValid) return Syntax.BadFormat;
    if (request.bodyBytes > this.#jobBytesMax) return Syntax.TooBig;
    if (options === undefined) return number.at === end ? Syntax.Ok : Syntax.BadFormat;
    const name = args === Args.SchedulePut ? request.name : undefined;
    const syntax = this.#options.parse(bytes, number.at, end, options, request.options, name);
    // It travels with the options, since the body of a put is yet to come.
    name?.clear();
    switch (syntax) {
      case OptionsSyntax.Ok:
        return needsOption && request.options.length === 0 ? Syntax.BadFormat : Syntax.Ok;
      case OptionsSyntax.Bad:
        return Syntax.BadOption;
      case OptionsSyntax.Unknown:
        return Syntax.UnknownOption;
    }
  }

  /** Reads the arguments of an extension, each up to a blank or the end. */
  #fields(args: Args, bytes: Uint8Array, end: number): boolean {
    const fields = FIELDS[args];
    for (let i = 0; i < fields.length; i++)
      if (!this.#field(fields[i]!, bytes, end) || !this.#isApart(bytes, end)) return false;
    return true;
  }

  /**
   * Does the same for the variant of put, which is as frequent as put itself; written out, it takes
   * half the time.
   */
  #tubePut(bytes: Uint8Array, end: number): boolean {
    return (
      this.#tube(bytes, end) &&
      this.#pri(bytes, end) &&
      this.#isApart(bytes, end) &&
      this.#duration(bytes, end) &&
      this.#isApart(bytes, end) &&
      this.#ttr(bytes, end) &&
      this.#isApart(bytes, end) &&
      this.#bodyBytes(bytes, end) &&
      this.#isApart(bytes, end)
    );
  }

  /** Returns whether a blank or the end follows the argument. */
  #isApart(bytes: Uint8Array, end: number): boolean {
    const { at } = this.#number;
    return at >= end || bytes[at] === SPACE;
  }

  /** Reads one argument of an extension. */
  #field(field: Field, bytes: Uint8Array, end: number): boolean {
    const { request } = this;
    const number = this.#number;
    switch (field) {
      case "tube":
      case "batch":
        return this.#tube(bytes, end);
      case "tube | *":
        return this.#tube(bytes, end) || isEveryTube(this.request.tube);
      case "pattern":
        return this.#pattern(bytes, end);
      case "to":
        return this.#target(bytes, end);
      case "id":
        return this.#id(bytes, end);
      case "pri":
        return this.#pri(bytes, end);
      case "delay":
        return this.#duration(bytes, end);
      case "ttr":
        return this.#ttr(bytes, end);
      case "bytes":
        return this.#bodyBytes(bytes, end);
      case "seconds":
        if (!number.readWait(bytes, end)) return false;
        request.timeoutMs = number.value;
        return true;
      case "count":
        return this.#batchCount(bytes, end);
      case "ids":
        return this.#ids(bytes, end);
      case "name":
        return this.#name(bytes, end, WORKER_BYTES_MAX);
      case "schedule":
        return this.#name(bytes, end, OPTION_VALUE_BYTES_MAX);
      case "strict|weighted|weighted-time":
        return this.#order(bytes, end);
      case "bound":
      case "token":
        throw new Error("broken invariant: no extension has such an argument");
    }
  }

  #duration(bytes: Uint8Array, end: number): boolean {
    const number = this.#number;
    if (!number.readDuration(bytes, end)) return false;
    this.request.delaySeconds = Math.floor(number.value / 1000);
    this.request.delayMillis = number.value % 1000;
    return true;
  }

  /** Reads blanks, then a tube name up to the next blank or the end. */
  #tube(bytes: Uint8Array, end: number): boolean {
    let start = this.#number.at;
    while (start < end && bytes[start] === SPACE) start++;
    let nameEnd = start;
    while (nameEnd < end && bytes[nameEnd] !== SPACE) nameEnd++;
    this.#number.at = nameEnd;
    this.request.tube.set(bytes, start, nameEnd);
    return isTubeName(bytes, start, nameEnd);
  }

  /** Reads blanks, then a tube or `*` up to the next blank or the end. */
  #target(bytes: Uint8Array, end: number): boolean {
    let start = this.#number.at;
    while (start < end && bytes[start] === SPACE) start++;
    let nameEnd = start;
    while (nameEnd < end && bytes[nameEnd] !== SPACE) nameEnd++;
    this.#number.at = nameEnd;
    this.request.target.set(bytes, start, nameEnd);
    return isTubeName(bytes, start, nameEnd) || isEveryTube(this.request.target);
  }

  /** Reads blanks, then a tube pattern up to the next blank or the end. */
  #pattern(bytes: Uint8Array, end: number): boolean {
    this.#tube(bytes, end);
    return isTubePattern(bytes, this.request.tube.start, this.request.tube.end);
  }

  /** Reads a count. A count above the maximum batch size means the maximum. */
  #batchCount(bytes: Uint8Array, end: number): boolean {
    const isValid = this.#number.readU32(bytes, end);
    this.request.count = Math.min(this.#number.value, BATCH_JOBS_MAX);
    return isValid && this.request.count > 0;
  }

  /** Reads blanks, then a name up to the next blank or the end. */
  #name(bytes: Uint8Array, end: number, bytesMax: number): boolean {
    let start = this.#number.at;
    while (start < end && bytes[start] === SPACE) start++;
    let at = start;
    while (at < end && bytes[at]! > SPACE && bytes[at] !== DELETE) at++;
    this.#number.at = at;
    this.request.name.set(bytes, start, at);
    return at > start && at - start <= bytesMax;
  }

  /** Reads blanks, then the word of an order up to the next blank or the end. */
  #order(bytes: Uint8Array, end: number): boolean {
    let start = this.#number.at;
    while (start < end && bytes[start] === SPACE) start++;
    let at = start;
    while (at < end && bytes[at] !== SPACE) at++;
    this.#number.at = at;
    const order = ORDER_WORDS.findIndex(
      (word) => word.length === at - start && startsWith(bytes, start, at, word),
    );
    if (order < 0) return false;
    this.request.order = order as ReserveOrder;
    return true;
  }

  /** Reads all ids up to the end. */
  #ids(bytes: Uint8Array, end: number): boolean {
    const number = this.#number;
    const start = number.at;
    let count = 0;
    do {
      if (!number.readU64(bytes, end) || ++count > BATCH_JOBS_MAX) return false;
      if (number.at < end && bytes[number.at] !== SPACE) return false;
    } while (number.at < end);
    this.request.count = count;
    this.request.ids.set(bytes, start, end);
    return true;
  }

  #ttr(bytes: Uint8Array, end: number): boolean {
    const isValid = this.#number.readU32(bytes, end);
    this.request.ttrSeconds = Math.max(1, this.#number.value);
    return isValid;
  }

  #bodyBytes(bytes: Uint8Array, end: number): boolean {
    const isValid = this.#number.readU32(bytes, end);
    this.request.bodyBytes = this.#number.value;
    return isValid;
  }

  /**
   * Returns the syntax of a line that must end after its numbers; `isValid` says whether these are
   * well formed.
   */
  #ends(isValid: boolean, end: number): Syntax {
    return isValid && this.#number.at === end ? Syntax.Ok : Syntax.BadFormat;
  }

  /** Does the same for a line that may also end with a reason, if the command has that option. */
  #mayGiveReason(
    isValid: boolean,
    options: readonly OptionRow[] | undefined,
    bytes: Uint8Array,
    end: number,
  ): Syntax {
    const { at } = this.#number;
    if (isValid && at < end && options !== undefined)
      return this.#options.reason(bytes, at, end, this.request.reason) ? Syntax.Ok : Syntax.BadFormat;
    return this.#ends(isValid, end);
  }

  /** Parses a tube that a weight follows, if the command has that option. */
  #tubeWeight(options: readonly OptionRow[] | undefined, bytes: Uint8Array, at: number, end: number): Syntax {
    if (options === undefined) return Syntax.BadFormat;
    const nameEnd = tubeNameEnd(bytes, at, end);
    if (!isTubeName(bytes, at, nameEnd)) return Syntax.BadFormat;
    this.request.tube.set(bytes, at, nameEnd);
    const syntax = this.#options.parse(bytes, nameEnd, end, options, this.request.options);
    return syntax === OptionsSyntax.Ok && this.request.options.length > 0 ? Syntax.Ok : Syntax.BadFormat;
  }

  #secret(bytes: Uint8Array, at: number, end: number): Syntax {
    if (at === end) return Syntax.BadFormat;
    for (let i = at; i < end; i++) if (bytes[i] === SPACE) return Syntax.BadFormat;
    this.request.secret.set(bytes, at, end);
    return Syntax.Ok;
  }

  #id(bytes: Uint8Array, end: number): boolean {
    const isValid = this.#number.readU64(bytes, end);
    this.request.id = this.#number.value;
    return isValid;
  }

  #pri(bytes: Uint8Array, end: number): boolean {
    const isValid = this.#number.readU32(bytes, end);
    this.request.pri = this.#number.value;
    return isValid;
  }

  #delay(bytes: Uint8Array, end: number): boolean {
    const isValid = this.#number.readU32(bytes, end);
    this.request.delaySeconds = this.#number.value;
    return isValid;
  }

  // Parses "put <pri> <delay> <ttr> <bytes>": first the numbers, then the size limit, then trailing
  // text (protocol/README.md 3.1).
  #put(bytes: Uint8Array, at: number, end: number): Syntax {
    const request = this.request;
    const number = this.#number;
    number.at = at;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    request.pri = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    request.delaySeconds = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    request.ttrSeconds = Math.max(1, number.value);
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    request.bodyBytes = number.value;
    if (request.bodyBytes > this.#jobBytesMax) return Syntax.TooBig;
    return number.at === end ? Syntax.Ok : Syntax.BadFormatCounted;
  }

  // Parses the only command that tolerates blanks around its tube name, and that is counted before
  // the name is checked.
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
