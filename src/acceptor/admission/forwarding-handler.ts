// Base class of filters: forwards every call.

import type { LineHandler } from "../input/line-reader.ts";

export class ForwardingHandler implements LineHandler {
  /** The handler to forward to. It is set before the first line. */
  protected inner!: LineHandler;

  get mayTakeLine(): boolean {
    return this.inner.mayTakeLine;
  }

  lineBytesMax(bytes: Uint8Array, start: number, end: number): number {
    return this.inner.lineBytesMax(bytes, start, end);
  }

  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    return this.inner.onLine(bytes, start, end, again);
  }

  onBadLine(): boolean {
    return this.inner.onBadLine();
  }

  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean {
    return this.inner.onBody(bytes, start, end, endsWell);
  }

  onPiece(bytes: Uint8Array, start: number, end: number): number {
    return this.inner.onPiece(bytes, start, end);
  }

  onLastPiece(endsWell: boolean): boolean {
    return this.inner.onLastPiece(endsWell);
  }

  onDropped(): boolean {
    return this.inner.onDropped();
  }

  onTurnOver(): void {
    this.inner.onTurnOver();
  }
}
