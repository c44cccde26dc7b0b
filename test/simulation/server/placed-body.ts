// A body that is received right where it lies in an arena, as with io_uring.

import type { Connection } from "../../../src/acceptor/connection/connection.ts";
import { BodyPlace } from "../../../src/engine/jobs/body-arena.ts";

/** Fills bytes that must not be used any more. */
export const SPOILED = 0xa5;

/** The socket whose bytes are received. */
interface Source {
  /** Whether a receive may go to the arena now. */
  readonly mayPlace: boolean;
  /** Takes up to `bytesMax` bytes that the client has sent; returns how many it took. */
  take(target: Uint8Array, at: number, bytesMax: number): number;
}

export class PlacedBody {
  readonly #source: Source;
  readonly #place = new BodyPlace();
  /** Bytes received so far; -1 while no receive goes to an arena. */
  #placed = -1;
  /** Whether CR LF comes with them. */
  #endsBody = false;
  readonly #trailer = new Uint8Array(2);

  constructor(source: Source) {
    this.#source = source;
  }

  get isOpen(): boolean {
    return this.#placed >= 0;
  }

  /** Has the next receive go to the arena if the connection awaits a body there. */
  begin(connection: Connection): void {
    if (!this.#source.mayPlace || !connection.awaitsBody) return;
    if (!connection.findBodyRoom(this.#place)) return;
    this.#placed = 0;
    this.#endsBody = connection.bodyEndsAfter(this.#place.length);
    this.#place.arena!.pin(this.#place.handle);
  }

  /**
   * Receives up to `bytesMax` bytes, and finishes when all are there, with CR LF if it is theirs.
   */
  fill(connection: Connection, bytesMax: number): void {
    const { bytes, at, length } = this.#place;
    const inPlace = Math.min(this.#placed, length);
    const came = this.#source.take(bytes, at + inPlace, Math.min(bytesMax, length - inPlace));
    this.#placed += came;
    const inTrailer = Math.max(0, this.#placed - length);
    if (this.#endsBody && this.#placed >= length)
      this.#placed += this.#source.take(this.#trailer, inTrailer, Math.min(bytesMax - came, 2 - inTrailer));
    const wanted = length + (this.#endsBody ? 2 : 0);
    if (this.#placed === wanted) this.finish(connection);
  }

  finish(connection: Connection): void {
    const { arena, handle, length } = this.#place;
    const placed = this.#placed;
    this.#placed = -1;
    arena!.unpin(handle);
    connection.onBodyStored(Math.min(placed, length));
    if (placed > length) connection.onBytes(this.#trailer.slice(), placed - length);
    this.begin(connection);
  }

  /** Ends the receive without a result: the kernel may still write anything there. */
  abandon(): void {
    if (this.#placed < 0) return;
    const { arena, handle, bytes, at, length } = this.#place;
    bytes.fill(SPOILED, at + Math.min(this.#placed, length), at + length);
    this.#placed = -1;
    arena!.unpin(handle);
  }
}
