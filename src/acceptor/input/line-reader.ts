// Cuts one connection's bytes into lines and bodies. What can't be used yet stays here, in the input buffer.

import * as ascii from "../../base/ascii.ts";
import { LINE_BYTES_MAX } from "../../protocol/limits.ts";
import { InputBuffer } from "./input-buffer.ts";

// As constants of this file: an import is loaded anew at each use.
const { CR, LF } = ascii;

/** Lines that a connection may have executed before the others have their turn. */
const TURN_LINES = 256;

/** What the next bytes are. */
const Expect = {
  Line: 0,
  /** The rest of an overlong line. */
  OverlongLine: 1,
  /** A body to be sent whole. */
  WholeBody: 2,
  /** A body that is sent as it comes. */
  PiecedBody: 3,
  /** A body that is too big, dropped as it comes. */
  DroppedBody: 4,
  /** Nothing: no more is taken from the client. */
  Stopped: 5,
} as const;
type Expect = (typeof Expect)[keyof typeof Expect];

/**
 * Who executes what was read. Bytes are valid during the call; false means that it has to wait, and is told
 * again.
 */
export interface LineHandler {
  /** Whether the next line may be looked at. */
  readonly mayTakeLine: boolean;
  /** Most bytes, with its CR LF, of the line that `bytes[start, end)` begins: at least LINE_BYTES_MAX. */
  lineBytesMax(bytes: Uint8Array, start: number, end: number): number;
  /** A line `bytes[start, end)`, without its CR LF; `again` if it has been told before. */
  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean;
  /** A line that is too long or has a NUL. */
  onBadLine(): boolean;
  /** The body that was asked for by `expectBody`, and whether CR LF followed it. */
  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean;
  /** Part of a body that was asked for by `expectPieces`: returns how many of the bytes were used. */
  onPiece(bytes: Uint8Array, start: number, end: number): number;
  onLastPiece(endsWell: boolean): boolean;
  /** A body has been dropped, all but its last byte. */
  onDropped(): boolean;
  /** Many lines were executed: the others have their turn, then `proceed` is to be called. */
  onTurnOver(): void;
}

export class LineReader {
  readonly #handler: LineHandler;
  readonly #input = new InputBuffer();
  #expect: Expect = Expect.Line;
  /** The next line has been looked at before and had to wait. */
  #again = false;
  /** So many bytes of the next line have come before, without an end: more than LINE_BYTES_MAX, or 0. */
  #longLineBytes = 0;
  /** Bytes of the present body still to come, with its CR LF. */
  #bodyLeft = 0;
  #bodyEndsInCr = false;

  constructor(handler: LineHandler) {
    this.#handler = handler;
  }

  /** Bytes that have come and could not be used yet. */
  get bufferedBytes(): number {
    return this.#input.length;
  }

  /** Whether it is between two lines, with nothing of the next. */
  get isBetweenLines(): boolean {
    return this.#expect === Expect.Line && this.#input.length === 0;
  }

  /** Bytes that have to be buffered before anything can be done with them: a body that is awaited whole. */
  get awaitedBytes(): number {
    return this.#expect === Expect.WholeBody ? this.#bodyLeft : 0;
  }

  /** Bytes of a body that is told as it comes which have not come yet; 0 while something else is to be told first. */
  get pieceBytesLeft(): number {
    if (this.#expect !== Expect.PiecedBody || this.#input.length > 0) return 0;
    return Math.max(0, this.#bodyLeft - 2);
  }

  /** So many of them have come past this. */
  pieceCame(length: number): void {
    this.#bodyLeft -= length;
  }

  /** Bytes from the socket, valid during the call. */
  // put 1/10
  take(bytes: Uint8Array, length: number): void {
    if (this.#input.length > 0) {
      this.#input.append(bytes, 0, length);
      this.proceed();
      return;
    }
    const used = this.#consume(bytes, 0, length);
    if (used < length) this.#input.append(bytes, used, length);
  }

  /** Goes on with bytes that had to wait. */
  proceed(): void {
    const input = this.#input;
    if (input.length > 0) input.consumeTo(this.#consume(input.bytes, input.start, input.end));
  }

  /** The next `bodyBytes` and CR LF are a body, to be told whole. */
  expectBody(bodyBytes: number): void {
    this.#expect = Expect.WholeBody;
    this.#bodyLeft = bodyBytes + 2;
    // No more than has been declared within the limit of a gathered body, which a client may hold anyway.
    this.#input.expect(bodyBytes + 2);
  }

  /** The same, to be told as it comes. */
  expectPieces(bodyBytes: number): void {
    this.#expect = Expect.PiecedBody;
    this.#bodyLeft = bodyBytes + 2;
    this.#bodyEndsInCr = false;
    this.#input.expect(0);
  }

  /** The next `bodyBytes` and two more are dropped. */
  dropBody(bodyBytes: number): void {
    this.#expect = Expect.DroppedBody;
    this.#bodyLeft = bodyBytes + 2;
  }

  /** Takes nothing from the client any more, and forgets what it sent. */
  stop(): void {
    this.#expect = Expect.Stopped;
    this.#input.clear();
  }

  /** Uses what it can of `bytes[at, end)`; returns the position behind what was used. */
  #consume(bytes: Uint8Array, at: number, end: number): number {
    let position = at;
    let lines = 0;
    while (position < end) {
      if (this.#expect === Expect.Line && lines++ === TURN_LINES) {
        this.#handler.onTurnOver();
        break;
      }
      const next = this.#consumeOne(bytes, position, end);
      if (next === position) break;
      position = next;
    }
    return position;
  }

  /** One line or body, or what has come of it; returns the position behind it, `at` if it has to wait. */
  #consumeOne(bytes: Uint8Array, at: number, end: number): number {
    switch (this.#expect) {
      case Expect.Line:
        return this.#line(bytes, at, end);
      case Expect.WholeBody:
        return this.#wholeBody(bytes, at, end);
      case Expect.PiecedBody:
        return this.#piecedBody(bytes, at, end);
      case Expect.DroppedBody:
        return this.#droppedBody(at, end);
      case Expect.OverlongLine:
        return this.#overlongLine(bytes, at, end);
      case Expect.Stopped:
        return end;
    }
  }

  // put 2/10
  #line(bytes: Uint8Array, start: number, end: number): number {
    if (!this.#handler.mayTakeLine) return start;
    const limit = Math.min(end, start + LINE_BYTES_MAX);
    let hasNul = false;
    let at = start;
    for (; at < limit; at++) {
      const byte = bytes[at]!;
      // One comparison for nearly all bytes.
      if (byte > LF) continue;
      if (byte === LF && at > start && bytes[at - 1] === CR) break;
      if (byte === 0) hasNul = true;
    }
    if (at < limit) {
      const handler = this.#handler;
      const done = hasNul ? handler.onBadLine() : handler.onLine(bytes, start, at - 1, this.#again);
      this.#again = !done;
      return done ? at + 1 : start;
    }
    if (at - start < LINE_BYTES_MAX) return start;
    return this.#longLine(bytes, start, end);
  }

  /** A line without an end in its first LINE_BYTES_MAX bytes, which some commands may have. */
  #longLine(bytes: Uint8Array, start: number, end: number): number {
    const handler = this.#handler;
    const bytesMax = handler.lineBytesMax(bytes, start, start + LINE_BYTES_MAX);
    const limit = Math.min(end, start + bytesMax);
    // What has been searched is not searched again, however small the pieces are in which the line comes.
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
      if (!this.#handler.onBadLine()) return start;
      this.#expect = Expect.Line;
      return at + 1;
    }
    return bytes[end - 1] === CR ? end - 1 : end;
  }

  #wholeBody(bytes: Uint8Array, at: number, end: number): number {
    const bodyEnd = at + this.#bodyLeft - 2;
    if (end < bodyEnd + 2) return at;
    const endsWell = bytes[bodyEnd] === CR && bytes[bodyEnd + 1] === LF;
    if (!this.#handler.onBody(bytes, at, bodyEnd, endsWell)) return at;
    this.#expect = Expect.Line;
    return bodyEnd + 2;
  }

  /** Its last two bytes only decide whether it is well formed. */
  #piecedBody(bytes: Uint8Array, at: number, end: number): number {
    if (this.#bodyLeft > 2) {
      const used = this.#handler.onPiece(bytes, at, Math.min(end, at + this.#bodyLeft - 2));
      this.#bodyLeft -= used;
      return at + used;
    }
    if (this.#bodyLeft === 2) {
      this.#bodyEndsInCr = bytes[at] === CR;
      this.#bodyLeft = 1;
      return at + 1;
    }
    if (!this.#handler.onLastPiece(this.#bodyEndsInCr && bytes[at] === LF)) return at;
    this.#expect = Expect.Line;
    return at + 1;
  }

  #droppedBody(at: number, end: number): number {
    const dropped = Math.min(end - at, this.#bodyLeft);
    // The last byte goes with the reply, which may have to wait.
    if (dropped === this.#bodyLeft) {
      if (!this.#handler.onDropped()) {
        this.#bodyLeft = 1;
        return at + dropped - 1;
      }
      this.#expect = Expect.Line;
    }
    this.#bodyLeft -= dropped;
    return at + dropped;
  }
}
