// The body of a put on its way from the receive buffer directly into the arena of a shard in the
// same thread.

import type { BodyArena, BodyPlace } from "../../engine/jobs/body-arena.ts";

export class StoredBody {
  #bodies: BodyArena | undefined;
  #handle = 0;
  #writtenBytes = 0;
  /** Memory ran out: the rest of the body is dropped as it arrives, and the put is refused. */
  failed = false;

  /** Whether a body is in progress. */
  get active(): boolean {
    return this.#bodies !== undefined;
  }

  /** Starts a body of `bodyBytes`. Returns false if there is no memory for it. */
  begin(bodies: BodyArena, bodyBytes: number): boolean {
    try {
      this.#handle = bodies.allocate(bodyBytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return false;
    }
    this.#bodies = bodies;
    this.#writtenBytes = 0;
    this.failed = false;
    this.#check(bodies);
    return true;
  }

  write(bytes: Uint8Array, start: number, length: number): void {
    if (this.failed) return;
    try {
      this.#bodies!.write(this.#handle, this.#writtenBytes, bytes, start, length);
      this.#writtenBytes += length;
      this.#check(this.#bodies!);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.#bodies!.free(this.#handle);
      this.failed = true;
    }
  }

  /** Whether any of its bytes have arrived. Until then a large body has no memory. */
  get hasBegun(): boolean {
    return this.#writtenBytes > 0;
  }

  /**
   * Finds room for up to `wanted` next bytes, to be written there without `write`. Returns false if
   * there is no memory.
   */
  findRoom(wanted: number, place: BodyPlace): boolean {
    if (this.failed || !this.#bodies!.limit.allows) return false;
    try {
      this.#bodies!.findRoom(this.#handle, this.#writtenBytes, wanted, place);
      return true;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return false;
    }
  }

  /** Notes that `length` bytes were written into that room. */
  filled(length: number): void {
    this.#bodies!.filled(this.#handle, length);
    this.#writtenBytes += length;
    this.#check(this.#bodies!);
  }

  /** Gives the body up if the arena is over its limit. */
  #check(bodies: BodyArena): void {
    if (bodies.limit.allows) return;
    bodies.free(this.#handle);
    this.failed = true;
  }

  get handle(): number {
    return this.#handle;
  }

  /** Ends its part in the body, which now belongs to the shard. */
  handOver(): void {
    this.#bodies = undefined;
  }

  /** Gives up a body in progress, if there is one. */
  abandon(): void {
    if (this.#bodies !== undefined && !this.failed) this.#bodies.free(this.#handle);
    this.#bodies = undefined;
  }
}
