// Splits one connection's bytes into lines and bodies. Bytes that cannot be used yet stay in the
// input buffer.

import * as ascii from "../../base/ascii.ts";
import { LINE_BYTES_MAX } from "../../protocol/limits.ts";
import { buffers } from "./output.ts";

// Constants of this file: an imported binding is loaded again at each use.
const { CR, LF } = ascii;

/** Lines that a connection may execute before others get their turn. */
const TURN_LINES = 256;
/** The same once many connections have had theirs in this pass. */
const TURN_LINES_MIN = 16;

/** Lines that all connections of an acceptor may have executed in a pass, before each gets few. */
export interface LineBudget {
  left: number;
}

/** The kind of the next bytes. */
const Expect = {
  Line: 0,
  /** The rest of an overlong line. */
  OverlongLine: 1,
  /** A body that is passed on whole. */
  WholeBody: 2,
  /** A body that is passed on as it arrives. */
  PiecedBody: 3,
  /** A body that is too big, dropped as it arrives. */
  DroppedBody: 4,
  /** Nothing: no more input is taken from the client. */
  Stopped: 5,
} as const;
type Expect = (typeof Expect)[keyof typeof Expect];

/**
 * Executes the lines and bodies that were read. Bytes are valid only during a call. A call that
 * returns false has to wait and is repeated later.
 */
export interface LineHandler {
  /** Whether the next line may be processed. */
  readonly mayTakeLine: boolean;
  /**
   * Returns the most bytes, including CR LF, that the line beginning with `bytes[start, end)` may
   * have: at least LINE_BYTES_MAX.
   */
  lineBytesMax(bytes: Uint8Array, start: number, end: number): number;
  /**
   * Takes the line `bytes[start, end)`, without its CR LF. `again` is set if it was passed before.
   */
  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean;
  /** Takes a line that is too long or contains a NUL. */
  onBadLine(): boolean;
  /** Takes the body requested with `expectBody`. `endsWell` tells whether CR LF followed. */
  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean;
  /**
   * Takes part of a body requested with `expectPieces`. Returns how many of the bytes were used.
   */
  onPiece(bytes: Uint8Array, start: number, end: number): number;
  onLastPiece(endsWell: boolean): boolean;
  /** Called when all of a dropped body but its last byte is gone. */
  onDropped(): boolean;
  /**
   * Called after many lines, so that others get their turn. `proceed` has to be called after that.
   */
  onTurnOver(): void;
}

const NOTHING = new Uint8Array(0);

/**
 * Bytes that could not be processed yet: part of a line or body, or commands that have to wait.
 */
export class InputBuffer {
  /** Allocated only while it is in use, so that idle connections hold no memory. */
  #buffer: Uint8Array = NOTHING;
  start = 0;
  end = 0;
  /** Bytes that can be used only together, so that a body's buffer grows once. */
  expectedBytes = 0;

  get bytes(): Uint8Array {
    return this.#buffer;
  }

  get length(): number {
    return this.end - this.start;
  }

  append(source: Uint8Array, from: number, to: number): void {
    const more = to - from;
    if (this.end + more > this.#buffer.length) this.#makeRoom(more);
    this.#buffer.set(source.subarray(from, to), this.end);
    this.end += more;
  }

  /** Drops everything before `position`. An empty buffer gives its memory back. */
  consumeTo(position: number): void {
    this.start = position;
    if (this.start < this.end) return;
    this.clear();
  }

  clear(): void {
    this.start = 0;
    this.end = 0;
    if (this.#buffer === NOTHING) return;
    buffers.give(this.#buffer);
    this.#buffer = NOTHING;
  }

  #makeRoom(more: number): void {
    const length = this.length;
    const needed = length + more;
    const before = this.#buffer;
    if (needed <= before.length) {
      before.copyWithin(0, this.start, this.end);
    } else {
      this.#buffer = buffers.take(Math.max(needed, this.expectedBytes));
      this.#buffer.set(before.subarray(this.start, this.end));
      buffers.give(before);
    }
    this.start = 0;
    this.end = length;
  }
}

export class LineReader {
  /** Replaced before the first bytes if a filter takes the lines. */
  handler: LineHandler;
  readonly #input = new InputBuffer();
  #expect: Expect = Expect.Line;
  /** The next line was passed before and had to wait. */
  #again = false;
  /** Bytes of the next line that were searched for its end in vain; 0 up to LINE_BYTES_MAX. */
  #longLineBytes = 0;
  /** Bytes of the current body still to come, including CR LF. */
  #bodyLeft = 0;
  #bodyEndsInCr = false;

  readonly #budget: LineBudget;

  constructor(handler: LineHandler, budget: LineBudget = { left: Number.POSITIVE_INFINITY }) {
    this.handler = handler;
    this.#budget = budget;
  }

  /** Bytes that have arrived and could not be used yet. */
  get bufferedBytes(): number {
    return this.#input.end - this.#input.start;
  }

  /** Whether the last line is complete and the next one has not begun. */
  get isBetweenLines(): boolean {
    return this.#expect === Expect.Line && this.bufferedBytes === 0;
  }

  /**
   * Bytes that have to be buffered before they can be used: the rest of a body that is passed on
   * whole.
   */
  get awaitedBytes(): number {
    return this.#expect === Expect.WholeBody ? this.#bodyLeft : 0;
  }

  /**
   * Bytes still to come of a body that is passed on as it arrives; 0 while other input comes first.
   */
  get pieceBytesLeft(): number {
    if (this.#expect !== Expect.PiecedBody || this.bufferedBytes > 0) return 0;
    return Math.max(0, this.#bodyLeft - 2);
  }

  /** Notes that `length` of them arrived without passing through here. */
  pieceCame(length: number): void {
    this.#bodyLeft -= length;
  }

  /** Takes bytes from the socket. They are valid only during the call. */
  // put 1/18
  take(bytes: Uint8Array, length: number): void {
    if (this.bufferedBytes > 0) {
      this.#input.append(bytes, 0, length);
      this.proceed();
      return;
    }
    const used = this.#consume(bytes, 0, length);
    if (used < length) this.#input.append(bytes, used, length);
  }

  /** Processes bytes that had to wait. */
  proceed(): void {
    const input = this.#input;
    if (this.bufferedBytes > 0) input.consumeTo(this.#consume(input.bytes, input.start, input.end));
  }

  /** Expects a body of `bodyBytes` and CR LF, to be passed on whole. */
  expectBody(bodyBytes: number): void {
    this.#expect = Expect.WholeBody;
    this.#bodyLeft = bodyBytes + 2;
    // Bounded by the limit of a gathered body, which a client may occupy anyway.
    this.#input.expectedBytes = bodyBytes + 2;
  }

  /** Expects a body of `bodyBytes` and CR LF, to be passed on as it arrives. */
  expectPieces(bodyBytes: number): void {
    this.#expect = Expect.PiecedBody;
    this.#bodyLeft = bodyBytes + 2;
    this.#bodyEndsInCr = false;
    this.#input.expectedBytes = 0;
  }

  /** Drops the next `bodyBytes` and two more. */
  dropBody(bodyBytes: number): void {
    this.#expect = Expect.DroppedBody;
    this.#bodyLeft = bodyBytes + 2;
  }

  /** Takes no more input from the client and discards what is buffered. */
  stop(): void {
    this.#expect = Expect.Stopped;
    this.#input.clear();
  }

  /** Uses as much as possible of `bytes[at, end)`. Returns the position after the used bytes. */
  #consume(bytes: Uint8Array, at: number, end: number): number {
    let position = at;
    let lines = 0;
    const { left } = this.#budget;
    const turnLines = left >= 4 * TURN_LINES ? TURN_LINES : Math.max(TURN_LINES_MIN, left >> 2);
    while (position < end) {
      if (this.#expect === Expect.Line && lines++ === turnLines) {
        this.handler.onTurnOver();
        break;
      }
      // Handle one line or body, or the part of it that has arrived. Bytes that have to wait stay.
      const before = position;
      switch (this.#expect) {
        case Expect.Line:
          position = this.#line(bytes, before, end);
          break;
        case Expect.WholeBody:
          position = this.#wholeBody(bytes, before, end);
          break;
        case Expect.PiecedBody:
          position = this.#piecedBody(bytes, before, end);
          break;
        case Expect.DroppedBody:
          position = this.#droppedBody(before, end);
          break;
        case Expect.OverlongLine:
          position = this.#overlongLine(bytes, before, end);
          break;
        case Expect.Stopped:
          return end;
      }
      if (position === before) break;
    }
    this.#budget.left -= lines;
    return position;
  }

  // put 2/18
  #line(bytes: Uint8Array, start: number, end: number): number {
    if (!this.handler.mayTakeLine) return start;
    const limit = Math.min(end, start + LINE_BYTES_MAX);
    let hasNul = false;
    let at = start;
    for (; at < limit; at++) {
      const byte = bytes[at]!;
      // One comparison suffices for nearly all bytes.
      if (byte > LF) continue;
      if (byte === LF && at > start && bytes[at - 1] === CR) break;
      if (byte === 0) hasNul = true;
    }
    if (at < limit) {
      const handler = this.handler;
      const done = hasNul ? handler.onBadLine() : handler.onLine(bytes, start, at - 1, this.#again);
      this.#again = !done;
      return done ? at + 1 : start;
    }
    if (at - start < LINE_BYTES_MAX) return start;
    return this.#longLine(bytes, start, end);
  }

  /**
   * Processes a line without an end in its first LINE_BYTES_MAX bytes. Some commands permit such
   * lines.
   */
  #longLine(bytes: Uint8Array, start: number, end: number): number {
    const handler = this.handler;
    const bytesMax = handler.lineBytesMax(bytes, start, start + LINE_BYTES_MAX);
    const limit = Math.min(end, start + bytesMax);
    // Never search the same bytes twice, however small the pieces of the line are.
    let at = start + Math.max(LINE_BYTES_MAX, this.#longLineBytes);
    while (at < limit && (bytes[at] !== LF || bytes[at - 1] !== CR)) at++;
    if (at < limit) {
      const hasNul = bytes.subarray(start, at).includes(0);
      const done = hasNul ? handler.onBadLine() : handler.onLine(bytes, start, at - 1, this.#again);
      this.#again = !done;
      this.#longLineBytes = done ? 0 : at - start;
      return done ? at + 1 : start;
    }
    if (at - start < bytesMax) {
      this.#longLineBytes = at - start;
      return start;
    }
    this.#longLineBytes = 0;
    this.#expect = Expect.OverlongLine;
    // The last byte may be the CR of the line's end.
    return bytes[at - 1] === CR ? at - 1 : at;
  }

  #overlongLine(bytes: Uint8Array, start: number, end: number): number {
    for (let at = start; at < end; at++) {
      if (bytes[at] !== LF || at === start || bytes[at - 1] !== CR) continue;
      if (!this.handler.onBadLine()) return start;
      this.#expect = Expect.Line;
      return at + 1;
    }
    return bytes[end - 1] === CR ? end - 1 : end;
  }

  #wholeBody(bytes: Uint8Array, at: number, end: number): number {
    const bodyEnd = at + this.#bodyLeft - 2;
    if (end < bodyEnd + 2) return at;
    const endsWell = bytes[bodyEnd] === CR && bytes[bodyEnd + 1] === LF;
    if (!this.handler.onBody(bytes, at, bodyEnd, endsWell)) return at;
    this.#expect = Expect.Line;
    return bodyEnd + 2;
  }

  /** Processes part of a body. Its last two bytes only decide whether it is well formed. */
  #piecedBody(bytes: Uint8Array, at: number, end: number): number {
    if (this.#bodyLeft > 2) {
      const used = this.handler.onPiece(bytes, at, Math.min(end, at + this.#bodyLeft - 2));
      this.#bodyLeft -= used;
      return at + used;
    }
    if (this.#bodyLeft === 2) {
      this.#bodyEndsInCr = bytes[at] === CR;
      this.#bodyLeft = 1;
      return at + 1;
    }
    if (!this.handler.onLastPiece(this.#bodyEndsInCr && bytes[at] === LF)) return at;
    this.#expect = Expect.Line;
    return at + 1;
  }

  #droppedBody(at: number, end: number): number {
    const dropped = Math.min(end - at, this.#bodyLeft);
    // The last byte goes with the reply, which may have to wait.
    if (dropped === this.#bodyLeft) {
      if (!this.handler.onDropped()) {
        this.#bodyLeft = 1;
        return at + dropped - 1;
      }
      this.#expect = Expect.Line;
    }
    this.#bodyLeft -= dropped;
    return at + dropped;
  }
}
