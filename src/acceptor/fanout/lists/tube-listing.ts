// A snapshot of all shards' tubes, as the shards sent it. All clients that asked at the time share
// it.

import type { Span } from "../../../protocol/request.ts";
import type { Names } from "./names.ts";

/** Bytes of an entry before its name: see message/response.ts. */
const HEADER_BYTES = 9;

export class TubeListing {
  /** The messages of each shard, in the order in which its tubes were created. */
  readonly chunks: readonly Uint8Array[][];
  count = 0;
  nameBytes = 0;
  /** The memory in use. */
  bytes = 0;
  /** The number of clients that have not read all of it. */
  readers = 0;

  constructor(shards: number) {
    this.chunks = Array.from({ length: shards }, () => []);
  }

  /** Adds part of a shard's list, which is valid only during the call. */
  add(shard: number, names: Span): void {
    const chunk = names.bytes.slice(names.start, names.end);
    const { length } = chunk;
    this.chunks[shard]!.push(chunk);
    this.bytes += length;
    for (let entry = 0; entry < length; this.count++) {
      const nameBytes = chunk[entry + 8]!;
      this.nameBytes += nameBytes;
      entry += HEADER_BYTES + nameBytes;
    }
  }

  names(): Names {
    return new ListingNames(this);
  }
}

/** A reader's position in the list of one shard. */
class Cursor {
  readonly #chunks: readonly Uint8Array[];
  #chunk = -1;
  #view: DataView | undefined;
  #next = 0;
  sequence: number = Number.POSITIVE_INFINITY;
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;
  length = 0;

  constructor(chunks: readonly Uint8Array[]) {
    this.#chunks = chunks;
    this.next();
  }

  /** Advances to the next tube. At the end the sequence is Infinity. */
  next(): void {
    while (this.#next >= this.bytes.length) {
      const chunk = this.#chunks[++this.#chunk];
      if (chunk === undefined) {
        this.sequence = Number.POSITIVE_INFINITY;
        return;
      }
      this.bytes = chunk;
      this.#view = new DataView(chunk.buffer, chunk.byteOffset);
      this.#next = 0;
    }
    this.sequence = this.#view!.getFloat64(this.#next, true);
    this.length = this.bytes[this.#next + 8]!;
    this.at = this.#next + HEADER_BYTES;
    this.#next = this.at + this.length;
  }
}

/**
 * All names in the order in which the tubes were created, merged from the ordered lists of the
 * shards.
 */
class ListingNames implements Names {
  readonly count: number;
  readonly nameBytes: number;
  readonly #cursors: readonly Cursor[];
  #present: Cursor | undefined;

  constructor(listing: TubeListing) {
    this.count = listing.count;
    this.nameBytes = listing.nameBytes;
    this.#cursors = listing.chunks.map((chunks) => new Cursor(chunks));
  }

  get bytes(): Uint8Array {
    return this.#present!.bytes;
  }

  get at(): number {
    return this.#present!.at;
  }

  get length(): number {
    return this.#present!.length;
  }

  next(): boolean {
    this.#present?.next();
    let best = this.#cursors[0]!;
    for (const cursor of this.#cursors) if (cursor.sequence < best.sequence) best = cursor;
    this.#present = best;
    return best.sequence !== Number.POSITIVE_INFINITY;
  }
}
