// Bytes of one connection that could not be processed yet: part of a line or body, or commands that
// have to wait.

import { buffers } from "./buffer-pool.ts";

const NOTHING = new Uint8Array(0);

export class InputBuffer {
  /** Allocated only while it is in use, so that idle connections hold no memory. */
  #buffer: Uint8Array = NOTHING;
  start = 0;
  end = 0;
  /** Bytes that have to be here together, so that a body's buffer grows once. */
  #expected = 0;

  get bytes(): Uint8Array {
    return this.#buffer;
  }

  get length(): number {
    return this.end - this.start;
  }

  /** Announces that the next bytes are used only when `bytes` of them have arrived. */
  expect(bytes: number): void {
    this.#expected = bytes;
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
      this.#buffer = buffers.take(Math.max(needed, this.#expected));
      this.#buffer.set(before.subarray(this.start, this.end));
      buffers.give(before);
    }
    this.start = 0;
    this.end = length;
  }
}
