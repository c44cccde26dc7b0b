// The body of a put on its way from the receive buffer right into the arena of a shard that lives in the same thread.

import type { BodyArena, BodyPlace } from "../../engine/jobs/body-arena.ts";

export class InPlaceBody {
  #bodies: BodyArena | undefined;
  #handle = 0;
  #writtenBytes = 0;
  /** Memory ran out: the rest is dropped as it comes, and the put refused. */
  failed = false;

  /** Whether a body is under way. */
  get active(): boolean {
    return this.#bodies !== undefined;
  }

  /** Begins a body of `bodyBytes`; false without memory for it. */
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

  /** Whether any of its bytes have come: before that a big one has no memory yet. */
  get hasBegun(): boolean {
    return this.#writtenBytes > 0;
  }

  /** Where its next bytes, at most `wanted`, may be written past `write`; false without memory for them. */
  findRoom(wanted: number, place: BodyPlace): boolean {
    if (this.failed || !this.#bodies!.mayStay) return false;
    try {
      this.#bodies!.findRoom(this.#handle, this.#writtenBytes, wanted, place);
      return true;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return false;
    }
  }

  /** So many bytes were written to such room. */
  filled(length: number): void {
    this.#bodies!.filled(this.#handle, length);
    this.#writtenBytes += length;
    this.#check(this.#bodies!);
  }

  /** Gives it up where it may not stay. */
  #check(bodies: BodyArena): void {
    if (bodies.mayStay) return;
    bodies.free(this.#handle);
    this.failed = true;
  }

  get handle(): number {
    return this.#handle;
  }

  /** The body is its shard's from now on. */
  handOver(): void {
    this.#bodies = undefined;
  }

  /** Gives up a body that is under way, if there is one. */
  abandon(): void {
    if (this.#bodies !== undefined && !this.failed) this.#bodies.free(this.#handle);
    this.#bodies = undefined;
  }
}
