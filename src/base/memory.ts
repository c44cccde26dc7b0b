// Bytes that are read and written as numbers, too.

/** `bytes`, and a view of the same memory for numbers. */
export class Memory {
  readonly bytes: Uint8Array;
  readonly view: DataView;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** A zeroed block of this size. */
  static ofSize(bytes: number): Memory {
    return new Memory(new Uint8Array(bytes));
  }
}
