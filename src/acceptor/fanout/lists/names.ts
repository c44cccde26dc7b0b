// An iterator over names, as bytes.

export interface Names {
  /** The number of names and their total length. */
  readonly count: number;
  readonly nameBytes: number;
  /** The current name: `bytes[at, at + length)`. */
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly length: number;
  /** Advances to the next name, at first to the first one. Returns false if there is none. */
  next(): boolean;
}
