// Received pieces of a body. Each piece is an object of about 200 bytes, and a client may send one
// for every byte.

/** After the first few, shorter pieces are merged. */
const SHORT_BYTES = 1024;
const FIRST = 8;
const BLOCK_BYTES = 4 * SHORT_BYTES;

export class BodyPieces {
  /** In order, without those in the block. */
  readonly #pieces: Buffer[] = [];
  /** Memory that collects short pieces, and its filled length. */
  #block: Buffer | undefined;
  #filled = 0;
  /** Total length of all pieces, in bytes. */
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

  /** Returns all pieces: at most two for each `SHORT_BYTES`, plus a few. Nothing is added later. */
  all(): readonly Buffer[] {
    this.#endBlock();
    return this.#pieces;
  }

  #endBlock(): void {
    if (this.#filled === 0) return;
    // Trimmed, since a long piece may follow each short one.
    this.#pieces.push(Buffer.from(this.#block!.subarray(0, this.#filled)));
    this.#filled = 0;
  }
}
