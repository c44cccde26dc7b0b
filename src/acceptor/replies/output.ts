// The replies of one connection on their way to its socket: gathered during a turn and sent with
// one write.
//
// A large body is not copied. The output refers to it in its arena, where it stays pinned until it
// has been sent.

import { copyBytes } from "../../base/bytes.ts";
import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import { buffers } from "../input/buffer-pool.ts";
import type { BodyReference, Transport } from "./transport.ts";

/** Maximum number of bodies in one message. */
const REFERRED_BODIES_MAX = 4;
/** Maximum bytes copied at once for a transport that cannot send from an arena. */
const COPIED_BYTES_MAX = 256 * 1024;

const NOTHING = new Uint8Array(0);

export class Output {
  /** Allocated only while it is in use, so that idle connections hold no memory. */
  #buffer: Uint8Array | undefined;
  /** Bytes in the buffer. */
  bufferedBytes = 0;
  /** Pinned bodies, in order; undefined for none. */
  #bodies: BodyReference[] | undefined;
  /** Bytes of pinned bodies. */
  bodyBytes = 0;
  readonly #inPlaceBytesMin: number;

  /** A body of at least `inPlaceBytesMin` bytes is not copied. */
  constructor(inPlaceBytesMin: number = Number.POSITIVE_INFINITY) {
    this.#inPlaceBytesMin = inPlaceBytesMin;
  }

  /** Bytes not yet handed to the transport. */
  get gatheredBytes(): number {
    return this.bufferedBytes + this.bodyBytes;
  }

  // put 10/10
  append(source: Uint8Array, at: number, length: number): void {
    copyBytes(this.#room(length), this.bufferedBytes, source, at, length);
    this.bufferedBytes += length;
  }

  /** Appends part of a body from the arena it lies in. */
  appendBody(arena: BodyArena, handle: number, offset: number, length: number): void {
    if (length < this.#inPlaceBytesMin) {
      arena.read(handle, offset, this.#room(length), this.bufferedBytes, length);
      this.bufferedBytes += length;
      return;
    }
    arena.pin(handle);
    this.#bodies ??= [];
    this.#bodies.push({ arena, handle, offset, length, at: this.bufferedBytes });
    this.bodyBytes += length;
  }

  /**
   * Hands the first `limit` bytes of the output to the transport, which tells whether the buffer
   * may be reused. The rest stays. Stops at large bodies that the transport cannot take now, unless
   * `all` is set. Returns the number of bytes handed over.
   */
  handOver(transport: Transport, limit: number = this.gatheredBytes, all = false): number {
    let done = 0;
    while (this.#bodies !== undefined && done < limit) {
      done += this.#flushBodies(transport, limit - done);
      if (transport.pendingBytes > 0 && !all) return done;
    }
    if (this.#buffer === undefined || done === limit) return limit;
    const buffer = this.#takeBuffer(limit - done);
    if (transport.send(buffer, limit - done)) buffers.give(buffer);
    return limit;
  }

  /** Detaches the buffer with its first `limit` bytes and copies the rest to another one. */
  #takeBuffer(limit: number): Uint8Array {
    const buffer = this.#buffer ?? NOTHING;
    const rest = this.bufferedBytes - limit;
    this.bufferedBytes = 0;
    this.#buffer = undefined;
    if (rest > 0) {
      copyBytes(this.#room(rest), 0, buffer, limit, rest);
      this.bufferedBytes = rest;
    }
    return buffer;
  }

  /**
   * Sends output that contains bodies: at its beginning, within the first `limit` bytes, or after
   * them. Returns the number of bytes handed over.
   */
  #flushBodies(transport: Transport, limit: number): number {
    const bodies = this.#bodies!;
    let count = 0;
    let bodyBytes = 0;
    while (count < bodies.length && bodies[count]!.at + bodyBytes < limit) {
      // The bodies after it wait for the next message, with the bytes between them.
      if (count === REFERRED_BODIES_MAX) return this.#flushBodies(transport, bodies[count]!.at + bodyBytes);
      bodyBytes += bodies[count++]!.length;
    }
    const bytes = limit - bodyBytes;
    if (count === 0) {
      // Update the state before the call: a transport that fails at once has the whole output
      // cleared.
      const buffer = this.#takeBuffer(limit);
      this.#drop(0, limit, 0);
      if (transport.send(buffer, limit)) buffers.give(buffer);
      return limit;
    }
    if (transport.sendWithBodies?.(this.#buffer ?? NOTHING, bytes, bodies.slice(0, count)) === true) {
      this.#takeBuffer(bytes);
      this.#drop(count, bytes, bodyBytes);
      return limit;
    }
    return this.#flushCopied(transport, limit);
  }

  /** Removes sent bodies and bytes from the beginning. */
  #drop(count: number, bytes: number, bodyBytes: number): void {
    const bodies = this.#bodies!;
    if (count > 0) bodies.splice(0, count);
    for (const body of bodies) body.at -= bytes;
    this.bodyBytes -= bodyBytes;
    if (bodies.length === 0) this.#bodies = undefined;
  }

  #flushCopied(transport: Transport, limit: number): number {
    const bodies = this.#bodies!;
    const length = Math.min(limit, COPIED_BYTES_MAX);
    const copy = buffers.take(length);
    let done = 0;
    let bytes = 0;
    let bodyBytes = 0;
    let count = 0;
    while (done < length) {
      const body = bodies[count];
      const before = Math.min((body?.at ?? this.bufferedBytes) - bytes, length - done);
      if (before > 0) copyBytes(copy, done, this.#buffer!, bytes, before);
      bytes += before;
      done += before;
      if (body === undefined || done === length) break;
      const part = Math.min(body.length, length - done);
      body.arena.read(body.handle, body.offset, copy, done, part);
      done += part;
      bodyBytes += part;
      body.offset += part;
      body.length -= part;
      if (body.length > 0) break;
      body.arena.unpin(body.handle);
      count++;
    }
    buffers.give(this.#takeBuffer(bytes));
    this.#drop(count, bytes, bodyBytes);
    if (transport.send(copy, length)) buffers.give(copy);
    return length;
  }

  clear(): void {
    if (this.#buffer !== undefined) buffers.give(this.#buffer);
    this.bufferedBytes = 0;
    this.#buffer = undefined;
    for (const body of this.#bodies ?? []) body.arena.unpin(body.handle);
    this.#bodies = undefined;
    this.bodyBytes = 0;
  }

  #room(more: number): Uint8Array {
    const needed = this.bufferedBytes + more;
    const buffer = this.#buffer;
    if (buffer !== undefined && needed <= buffer.length) return buffer;
    const larger = buffers.take(buffer === undefined ? needed : Math.max(needed, buffer.length * 2));
    if (buffer !== undefined) {
      larger.set(buffer.subarray(0, this.bufferedBytes));
      buffers.give(buffer);
    }
    this.#buffer = larger;
    return larger;
  }
}
