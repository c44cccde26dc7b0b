// The memory that holds a message: a ring, or a copy of one message that had to wait.

/** Views of the same bytes; a message's offset is a multiple of 8. */
export interface MessageSource {
  readonly bytes: Uint8Array;
  readonly int32: Int32Array;
  readonly uint32: Uint32Array;
  readonly float64: Float64Array;
}
