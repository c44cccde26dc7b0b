// A byte array with a view of the same memory for numbers.

/** `bytes`, and a DataView of the same memory. */
export class Memory {
  readonly bytes: Uint8Array;
  readonly view: DataView;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Returns a zeroed block of `bytes` bytes. */
  static ofSize(bytes: number): Memory {
    return new Memory(new Uint8Array(bytes));
  }
}
