// Where a message lies: a ring, or a copy of one message that had to wait.

/** Views of the same bytes; a message is at an offset that is a multiple of 8. */
export interface MessageSource {
  readonly bytes: Uint8Array;
  readonly int32: Int32Array;
  readonly uint32: Uint32Array;
  readonly float64: Float64Array;
}

/** A copy, at offset 0, of the message at `offset` of `source`. */
export function copyMessage(source: MessageSource, offset: number): MessageSource {
  const length = source.int32[offset >> 2]!;
  const buffer = new ArrayBuffer(length);
  const bytes = new Uint8Array(buffer);
  bytes.set(source.bytes.subarray(offset, offset + length));
  return {
    bytes,
    int32: new Int32Array(buffer),
    uint32: new Uint32Array(buffer),
    float64: new Float64Array(buffer),
  };
}
