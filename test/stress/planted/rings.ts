// Rings with planted bugs, which the stress cases must find.

import {
  EMPTY,
  HEAD_WORD,
  RING_BYTES_MIN,
  RingReader,
  RingWriter,
  WANTED_WORD,
} from "../../../src/ring/ring.ts";

/** Publishes a message before its bytes are there. */
export class HastyWriter extends RingWriter {
  override claim(length: number): number {
    const offset = super.claim(length);
    this.publish();
    return offset;
  }
}

/** Forgets that padding takes room too. */
export class CrampedWriter extends RingWriter {
  override hasRoom(length: number): boolean {
    return ((length + 7) & ~7) <= RING_BYTES_MIN - this.used;
  }
}

/** Gives the room of a message back while it is still being read. */
export class HastyReader extends RingReader {
  override next(): number {
    const offset = super.next();
    if (offset !== EMPTY) super.release();
    return offset;
  }
}

/** Looks whether the writer wants room before it has given any. */
export class ForgetfulReader extends RingReader {
  readonly #all: Int32Array;

  constructor(ring: SharedArrayBuffer) {
    super(ring);
    this.#all = new Int32Array(ring, 0, HEAD_WORD + 2);
  }

  override release(): boolean {
    const wanted = Atomics.exchange(this.#all, WANTED_WORD, 0) === 1;
    super.release();
    return wanted;
  }
}
