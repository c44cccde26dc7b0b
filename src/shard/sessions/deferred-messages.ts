// The deferred messages of one session, packed one after another into their own buffer.
//
// One object with views per message would take 900 bytes for a command of 8. Here a message takes
// as much as in the ring.

import { assert } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { requestOp } from "../../message/request.ts";
import type { MessageSource } from "../../ring/message-source.ts";

const NOTHING = new ArrayBuffer(0);
const FIRST_BYTES = 512;

export class DeferredMessages implements MessageSource {
  bytes: Uint8Array = new Uint8Array(NOTHING);
  int32: Int32Array = new Int32Array(NOTHING);
  uint32: Uint32Array = new Uint32Array(NOTHING);
  float64: Float64Array = new Float64Array(NOTHING);
  #start = 0;
  #end = 0;

  get isEmpty(): boolean {
    return this.#start === this.#end;
  }

  /** The op of the first message. There must be one. */
  get firstOp(): number {
    assert(this.#start < this.#end, "there is a first message");
    return requestOp(this, this.#start);
  }

  /** Appends a copy of the message at `offset` of `source`. */
  push(source: MessageSource, offset: number): void {
    const length = source.int32[offset >> 2]!;
    assert(length > 0 && (length & 7) === 0, "a message has a length in whole words");
    if (this.#end + length > this.bytes.length) this.#makeRoom(length);
    copyBytes(this.bytes, this.#end, source.bytes, offset, length);
    this.#end += length;
    assert(this.#end <= this.bytes.length, "a message fits into the buffer");
  }

  /**
   * Removes the first message and returns its offset. Its bytes stay valid until the next `push`.
   */
  shift(): number {
    assert(this.#start < this.#end, "a message that is taken was deferred");
    const offset = this.#start;
    this.#start += this.int32[offset >> 2]!;
    assert(this.#start <= this.#end, "a message ends before the next begins");
    return offset;
  }

  #makeRoom(more: number): void {
    const held = this.bytes.subarray(this.#start, this.#end);
    const needed = held.length + more;
    if (needed <= this.bytes.length) {
      this.bytes.copyWithin(0, this.#start, this.#end);
    } else {
      // Positions are addressed as int32 and float64, so the size is a multiple of 8.
      this.#use(new ArrayBuffer(Math.max(FIRST_BYTES, needed, 2 * this.bytes.length)));
      this.bytes.set(held);
    }
    this.#start = 0;
    this.#end = held.length;
    assert(this.#end + more <= this.bytes.length, "room that was made is enough");
  }

  #use(buffer: ArrayBuffer): void {
    this.bytes = new Uint8Array(buffer);
    this.int32 = new Int32Array(buffer);
    this.uint32 = new Uint32Array(buffer);
    this.float64 = new Float64Array(buffer);
  }
}
