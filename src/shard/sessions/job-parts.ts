// A reply assembled from lines and bodies. The lines are packed into a buffer; the bodies stay in
// the arena.

import { CR, LF } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { type BodyArena, EMPTY_BODY } from "../../engine/jobs/body-arena.ts";

/** Numbers per part: the end of its lines, the handle of its body, the size of the body. */
const PART = 3;
const BODY_END_BYTES = 2;

/** Parts of lines, each followed by a body and CR LF. The object is reused for every reply. */
export class JobParts {
  /** Total bytes of all parts. */
  bytes = 0;
  #lines = new Uint8Array(256);
  #lineBytes = 0;
  readonly #parts: number[] = [];

  begin(): void {
    this.bytes = 0;
    this.#lineBytes = 0;
    this.#parts.length = 0;
  }

  /** Adds bytes to the lines of the next part. Returns their position in `lines`. */
  line(bytes: Uint8Array, length: number = bytes.length): number {
    const at = this.#lineBytes;
    assert(length <= bytes.length, "a line is no longer than its source");
    this.#makeRoom(length);
    copyBytes(this.#lines, at, bytes, 0, length);
    this.#lineBytes += length;
    this.bytes += length;
    return at;
  }

  /** The lines so far, valid until more are added. */
  get lines(): Uint8Array {
    return this.#lines.subarray(0, this.#lineBytes);
  }

  /** Ends a part with a body. */
  body(handle: number, bodyBytes: number): void {
    assert(bodyBytes >= 0 && this.#lineBytes > 0, "a body follows a line");
    this.#parts.push(this.#lineBytes, handle, bodyBytes);
    this.bytes += bodyBytes + BODY_END_BYTES;
  }

  /**
   * Returns the parts for sending piece by piece. The bodies stay pinned until `PartsCursor.end`.
   */
  keep(bodies: BodyArena): PartsCursor {
    const cursor = new PartsCursor(
      bodies,
      this.#lines.slice(0, this.#lineBytes),
      Float64Array.from(this.#parts),
      this.bytes,
    );
    cursor.pin();
    return cursor;
  }

  /** Copies everything to `target[at]`. */
  copyTo(bodies: BodyArena, target: Uint8Array, at: number): void {
    assert(at + this.bytes <= target.length, "the parts fit into their target");
    new PartsCursor(bodies, this.#lines.subarray(0, this.#lineBytes), this.#parts, this.bytes).copy(
      target,
      at,
      this.bytes,
    );
  }

  #makeRoom(more: number): void {
    const needed = this.#lineBytes + more;
    if (needed <= this.#lines.length) return;
    const larger = new Uint8Array(Math.max(needed, this.#lines.length * 2));
    larger.set(this.#lines.subarray(0, this.#lineBytes));
    this.#lines = larger;
  }
}

/** Reads parts from the first byte to the last. */
export class PartsCursor {
  /** Bytes still to be read. */
  leftBytes: number;
  readonly #bodies: BodyArena;
  readonly #lines: Uint8Array;
  readonly #parts: ArrayLike<number>;
  /**
   * The current part: its index in the numbers, the start of its lines, and how much of it was
   * read.
   */
  #part = 0;
  #linesAt = 0;
  #readBytes = 0;

  constructor(bodies: BodyArena, lines: Uint8Array, parts: ArrayLike<number>, bytes: number) {
    assert(parts.length % PART === 0, "each part has its three numbers");
    this.#bodies = bodies;
    this.#lines = lines;
    this.#parts = parts;
    this.leftBytes = bytes;
  }

  pin(): void {
    for (let part = 0; part < this.#parts.length; part += PART) this.#bodies.pin(this.#parts[part + 1]!);
  }

  /** Unpins the bodies. */
  end(): void {
    assert(this.#part <= this.#parts.length, "a cursor stays within its parts");
    for (let part = 0; part < this.#parts.length; part += PART) this.#bodies.unpin(this.#parts[part + 1]!);
  }

  /** Copies the next `length` bytes to `target[at]`. The caller ensures that they exist. */
  copy(target: Uint8Array, at: number, length: number): void {
    assert(length <= this.leftBytes, "no more is read than is left");
    this.leftBytes -= length;
    for (let done = 0; done < length; ) done += this.#copySome(target, at + done, length - done);
  }

  /** Copies the next contiguous bytes of the current part. Returns how many. */
  #copySome(target: Uint8Array, at: number, length: number): number {
    const parts = this.#parts;
    if (this.#part === parts.length) return this.#copyLines(target, at, length, this.#lines.length);
    const linesEnd = parts[this.#part]!;
    assert(linesEnd >= this.#linesAt, "the lines of a part follow those of the part before");
    const lineBytes = linesEnd - this.#linesAt;
    if (this.#readBytes < lineBytes) return this.#copyLines(target, at, length, linesEnd);
    const bodyBytes = parts[this.#part + 2]!;
    const offset = this.#readBytes - lineBytes;
    if (offset < bodyBytes) {
      const some = Math.min(length, bodyBytes - offset);
      assert(some > 0, "each step reads a part of the lines");
      const handle = parts[this.#part + 1]!;
      if (handle !== EMPTY_BODY) this.#bodies.read(handle, offset, target, at, some);
      this.#readBytes += some;
      return some;
    }
    const isLast = offset === bodyBytes + 1;
    target[at] = isLast ? LF : CR;
    this.#readBytes++;
    if (isLast) {
      this.#part += PART;
      this.#linesAt = linesEnd;
      this.#readBytes = 0;
    }
    return 1;
  }

  #copyLines(target: Uint8Array, at: number, length: number, end: number): number {
    const from = this.#linesAt + this.#readBytes;
    const some = Math.min(length, end - from);
    assert(some > 0, "each step reads a part of the lines or of a body");
    copyBytes(target, at, this.#lines, from, some);
    this.#readBytes += some;
    return some;
  }
}
