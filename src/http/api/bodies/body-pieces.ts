// The pieces of a body, as they come. Each is an object of some 200 bytes, and a client may send one of every byte.

/** Shorter ones are put together, behind the first few. */
const SHORT_BYTES = 1024;
const FIRST = 8;
const BLOCK_BYTES = 4 * SHORT_BYTES;

export class BodyPieces {
  /** In their order, but for what stands in the block. */
  readonly #pieces: Buffer[] = [];
  /** Where short ones are gathered, and how much of it is filled. */
  #block: Buffer | undefined;
  #filled = 0;
  /** Of all pieces, bytes. */
  length = 0;

  add(piece: Buffer): void {
    this.length += piece.length;
    if (this.#pieces.length < FIRST || piece.length >= SHORT_BYTES) {
      this.#endBlock();
      this.#pieces.push(piece);
      return;
    }
    if (this.#filled + piece.length > BLOCK_BYTES) this.#endBlock();
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES);
    this.#block.set(piece, this.#filled);
    this.#filled += piece.length;
  }

  /** All of them, at most two for each `SHORT_BYTES` and some more. Nothing is added from now on. */
  all(): readonly Buffer[] {
    this.#endBlock();
    return this.#pieces;
  }

  #endBlock(): void {
    if (this.#filled === 0) return;
    // As long as it has to be: a long piece may follow each short one.
    this.#pieces.push(Buffer.from(this.#block!.subarray(0, this.#filled)));
    this.#filled = 0;
  }
}
