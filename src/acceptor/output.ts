// Replies of one connection on their way to its socket: gathered over a turn, sent with one write.

import { copyBytes } from "../base/bytes.ts";
import type { BodyArena } from "../engine/body-arena.ts";
import { buffers } from "./buffer-pool.ts";
import type { Transport } from "./transport.ts";

export class Output {
  /** Held only while there is something in it, so that idle connections hold none. */
  #buffer: Uint8Array | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  // put 10/10
  append(source: Uint8Array, at: number, length: number): void {
    copyBytes(this.#room(length), this.#length, source, at, length);
    this.#length += length;
  }

  /** The same with a part of a body, from the arena that it lies in. */
  appendBody(bodies: BodyArena, handle: number, offset: number, length: number): void {
    bodies.read(handle, offset, this.#room(length), this.#length, length);
    this.#length += length;
  }

  /**
   * Hands the first `limit` bytes of what is gathered to the transport, which says whether the buffer may be
   * used again. The rest stays.
   */
  flush(transport: Transport, limit: number = this.#length): void {
    const buffer = this.#buffer;
    if (buffer === undefined || limit === 0) return;
    const rest = this.#length - limit;
    this.#length = 0;
    this.#buffer = undefined;
    if (rest > 0) this.append(buffer, limit, rest);
    if (transport.send(buffer, limit)) buffers.give(buffer);
  }

  clear(): void {
    if (this.#buffer !== undefined) buffers.give(this.#buffer);
    this.#length = 0;
    this.#buffer = undefined;
  }

  #room(more: number): Uint8Array {
    const needed = this.#length + more;
    const buffer = this.#buffer;
    if (buffer !== undefined && needed <= buffer.length) return buffer;
    const larger = buffers.take(buffer === undefined ? needed : Math.max(needed, buffer.length * 2));
    if (buffer !== undefined) {
      larger.set(buffer.subarray(0, this.#length));
      buffers.give(buffer);
    }
    this.#buffer = larger;
    return larger;
  }
}
