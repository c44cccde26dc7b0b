// Names to be listed, one after the other, as bytes.

export interface Names {
  /** How many there are, and the bytes of all. */
  readonly count: number;
  readonly nameBytes: number;
  /** The present name: `bytes[at, at + length)`. */
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly length: number;
  /** Goes on to the next name, at first to the first; false if there is none. */
  next(): boolean;
}
