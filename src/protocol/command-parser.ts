// Parses one command line into a reusable, allocation-free result.

import { NumberReader } from "./number-reader.ts";
import { Op } from "./op.ts";
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

const SPACE = 0x20;
const HYPHEN = 0x2d;

const words = (text: string): Uint8Array => Uint8Array.from(text, (character) => character.charCodeAt(0));
const PUT = words("put ");
const PEEK = words("peek ");
const PEEK_READY = words("peek-ready");
const PEEK_DELAYED = words("peek-delayed");
const PEEK_BURIED = words("peek-buried");
const PAUSE_TUBE = words("pause-tube");
const RESERVE = words("reserve");
const RESERVE_WITH_TIMEOUT = words("reserve-with-timeout ");
const RESERVE_JOB = words("reserve-job ");
const RELEASE = words("release ");
const DELETE = words("delete ");
const BURY = words("bury ");
const KICK = words("kick ");
const KICK_JOB = words("kick-job ");
const TOUCH = words("touch ");
const STATS = words("stats");
const STATS_JOB = words("stats-job ");
const STATS_TUBE = words("stats-tube ");
const USE = words("use ");
const WATCH = words("watch ");
const IGNORE = words("ignore ");
const LIST_TUBES = words("list-tubes");
const LIST_TUBE_USED = words("list-tube-used");
const LIST_TUBES_WATCHED = words("list-tubes-watched");
const QUIT = words("quit");

function startsWith(bytes: Uint8Array, start: number, end: number, prefix: Uint8Array): boolean {
  if (end - start < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) if (bytes[start + i] !== prefix[i]) return false;
  return true;
}

/** Parses lines one at a time; the fields hold the last line's result and are overwritten by the next. */
export class CommandParser {
  op: Op = Op.Unknown;
  syntax: Syntax = Syntax.Ok;
  /** Job id; 0 for one that no job can have. */
  id = 0;
  pri = 0;
  /** Delay of put, release and pause-tube, in seconds. */
  delaySeconds = 0;
  ttrSeconds = 0;
  /** Body size of put, without its CR LF. */
  bodyBytes = 0;
  /** Of reserve-with-timeout, in seconds; `Infinity` for -1. */
  timeoutSeconds = 0;
  /** Bound of kick. */
  bound = 0;
  /** The tube name is `bytes[nameStart, nameEnd)` of the line's array. */
  nameStart = 0;
  nameEnd = 0;

  readonly #number = new NumberReader();
  readonly #jobBytesMax: number;

  constructor(jobBytesMax: number) {
    this.#jobBytesMax = jobBytesMax;
  }

  /** Parses `bytes[start, end)`, a line without its CR LF and without NUL bytes. */
  parse(bytes: Uint8Array, start: number, end: number): Syntax {
    this.syntax = this.#recognise(bytes, start, end);
    return this.syntax;
  }

  #recognise(bytes: Uint8Array, start: number, end: number): Syntax {
    this.op = Op.Unknown;
    switch (bytes[start]) {
      case 0x70: // p
        if (startsWith(bytes, start, end, PUT)) return this.#put(bytes, start + PUT.length, end);
        if (startsWith(bytes, start, end, PEEK)) return this.#id(Op.Peek, bytes, start + PEEK.length, end);
        if (startsWith(bytes, start, end, PEEK_READY))
          return this.#bare(Op.PeekReady, start + PEEK_READY.length, end);
        if (startsWith(bytes, start, end, PEEK_DELAYED))
          return this.#bare(Op.PeekDelayed, start + PEEK_DELAYED.length, end);
        if (startsWith(bytes, start, end, PEEK_BURIED))
          return this.#bare(Op.PeekBuried, start + PEEK_BURIED.length, end);
        if (startsWith(bytes, start, end, PAUSE_TUBE))
          return this.#pauseTube(bytes, start + PAUSE_TUBE.length, end);
        return Syntax.Unknown;
      case 0x72: // r
        if (startsWith(bytes, start, end, RESERVE_WITH_TIMEOUT))
          return this.#reserveWithTimeout(bytes, start, end);
        if (startsWith(bytes, start, end, RESERVE_JOB))
          return this.#id(Op.ReserveJob, bytes, start + RESERVE_JOB.length, end);
        if (startsWith(bytes, start, end, RESERVE))
          return this.#bare(Op.Reserve, start + RESERVE.length, end);
        if (startsWith(bytes, start, end, RELEASE)) return this.#release(bytes, start + RELEASE.length, end);
        return Syntax.Unknown;
      case 0x64: // d
        if (startsWith(bytes, start, end, DELETE))
          return this.#id(Op.Delete, bytes, start + DELETE.length, end);
        return Syntax.Unknown;
      case 0x62: // b
        if (startsWith(bytes, start, end, BURY)) return this.#bury(bytes, start + BURY.length, end);
        return Syntax.Unknown;
      case 0x6b: // k
        if (startsWith(bytes, start, end, KICK)) return this.#kick(bytes, start + KICK.length, end);
        if (startsWith(bytes, start, end, KICK_JOB))
          return this.#id(Op.KickJob, bytes, start + KICK_JOB.length, end);
        return Syntax.Unknown;
      case 0x74: // t
        if (startsWith(bytes, start, end, TOUCH)) return this.#id(Op.Touch, bytes, start + TOUCH.length, end);
        return Syntax.Unknown;
      case 0x73: // s
        if (startsWith(bytes, start, end, STATS_JOB))
          return this.#id(Op.StatsJob, bytes, start + STATS_JOB.length, end);
        if (startsWith(bytes, start, end, STATS_TUBE))
          return this.#name(Op.StatsTube, bytes, start + STATS_TUBE.length, end);
        if (startsWith(bytes, start, end, STATS)) return this.#bare(Op.Stats, start + STATS.length, end);
        return Syntax.Unknown;
      case 0x75: // u
        if (startsWith(bytes, start, end, USE)) return this.#name(Op.Use, bytes, start + USE.length, end);
        return Syntax.Unknown;
      case 0x77: // w
        if (startsWith(bytes, start, end, WATCH))
          return this.#name(Op.Watch, bytes, start + WATCH.length, end);
        return Syntax.Unknown;
      case 0x69: // i
        if (startsWith(bytes, start, end, IGNORE))
          return this.#name(Op.Ignore, bytes, start + IGNORE.length, end);
        return Syntax.Unknown;
      case 0x6c: // l
        if (startsWith(bytes, start, end, LIST_TUBES_WATCHED))
          return this.#bare(Op.ListTubesWatched, start + LIST_TUBES_WATCHED.length, end);
        if (startsWith(bytes, start, end, LIST_TUBE_USED))
          return this.#bare(Op.ListTubeUsed, start + LIST_TUBE_USED.length, end);
        if (startsWith(bytes, start, end, LIST_TUBES))
          return this.#bare(Op.ListTubes, start + LIST_TUBES.length, end);
        return Syntax.Unknown;
      case 0x71: // q: whatever follows "quit" is ignored
        if (!startsWith(bytes, start, end, QUIT)) return Syntax.Unknown;
        this.op = Op.Quit;
        return Syntax.Ok;
      default:
        return Syntax.Unknown;
    }
  }

  #bare(op: Op, at: number, end: number): Syntax {
    this.op = op;
    return at === end ? Syntax.Ok : Syntax.BadFormat;
  }

  #id(op: Op, bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = op;
    const number = this.#number;
    number.at = at;
    if (!number.readU64(bytes, end) || number.at !== end) return Syntax.BadFormat;
    this.id = number.value;
    return Syntax.Ok;
  }

  #name(op: Op, bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = op;
    if (!isTubeName(bytes, at, end)) return Syntax.BadFormat;
    this.nameStart = at;
    this.nameEnd = end;
    return Syntax.Ok;
  }

  // "put <pri> <delay> <ttr> <bytes>": numbers first, then the size limit, then trailing text (protocol/README.md 3.1).
  #put(bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = Op.Put;
    const number = this.#number;
    number.at = at;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.pri = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.delaySeconds = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.ttrSeconds = number.value === 0 ? 1 : number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.bodyBytes = number.value;
    if (this.bodyBytes > this.#jobBytesMax) return Syntax.TooBig;
    return number.at === end ? Syntax.Ok : Syntax.BadFormatCounted;
  }

  #release(bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = Op.Release;
    const number = this.#number;
    number.at = at;
    if (!number.readU64(bytes, end)) return Syntax.BadFormat;
    this.id = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.pri = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.delaySeconds = number.value;
    return number.at === end ? Syntax.Ok : Syntax.BadFormat;
  }

  #bury(bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = Op.Bury;
    const number = this.#number;
    number.at = at;
    if (!number.readU64(bytes, end)) return Syntax.BadFormat;
    this.id = number.value;
    if (!number.readU32(bytes, end)) return Syntax.BadFormat;
    this.pri = number.value;
    return number.at === end ? Syntax.Ok : Syntax.BadFormat;
  }

  #kick(bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = Op.Kick;
    this.#number.at = at;
    if (!this.#number.readKickBound(bytes, end)) return Syntax.BadFormat;
    this.bound = this.#number.value;
    return Syntax.Ok;
  }

  #reserveWithTimeout(bytes: Uint8Array, start: number, end: number): Syntax {
    this.op = Op.ReserveWithTimeout;
    this.#number.at = start + RESERVE_WITH_TIMEOUT.length;
    if (!this.#number.readTimeout(bytes, end)) return Syntax.BadFormat;
    this.timeoutSeconds = this.#number.value;
    return Syntax.Ok;
  }

  // The one command that tolerates blanks around its name, and whose name is judged after it is counted.
  #pauseTube(bytes: Uint8Array, at: number, end: number): Syntax {
    this.op = Op.PauseTube;
    let nameStart = at;
    while (nameStart < end && bytes[nameStart] === SPACE) nameStart++;
    const nameEnd = tubeNameEnd(bytes, nameStart, end);
    if (nameEnd === nameStart) return Syntax.BadFormat;
    this.#number.at = nameEnd;
    if (!this.#number.readU32(bytes, end) || this.#number.at !== end) return Syntax.BadFormat;
    this.delaySeconds = this.#number.value;
    this.nameStart = nameStart;
    this.nameEnd = nameEnd;
    if (bytes[nameStart] === HYPHEN || !isTubeName(bytes, nameStart, nameEnd)) return Syntax.BadFormatCounted;
    return Syntax.Ok;
  }
}
