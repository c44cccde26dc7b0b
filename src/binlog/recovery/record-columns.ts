// The records of a segment as columns: plain memory that can cross threads.

import { assert } from "../../base/assert.ts";
import { UPDATE_BYTES } from "../../message/record.ts";

/** The data that the books need of a segment's records, in order. */
export interface RecordColumns {
  count: number;
  kinds: Uint8Array;
  ids: Float64Array;
  /** Offsets of the frames. */
  offsets: Uint32Array;
  /** Length of frame and record. */
  framedBytes: Uint32Array;
  /** See recordExtra. */
  extras: Uint32Array;
  /** The UPDATE records themselves, contiguous and in order, each as long as its frame says. */
  updates: Uint8Array;
}

/** Builds the columns record by record. */
export class ColumnWriter {
  count = 0;
  kinds: Uint8Array;
  ids: Float64Array;
  offsets: Uint32Array;
  framedBytes: Uint32Array;
  extras: Uint32Array;
  updates: Uint8Array;
  #updateBytes = 0;

  constructor(fileBytes: number) {
    assert(fileBytes >= 0, "a file has a length");
    const guess = Math.max(16, Math.ceil(fileBytes / 120));
    this.kinds = new Uint8Array(guess);
    this.ids = new Float64Array(guess);
    this.offsets = new Uint32Array(guess);
    this.framedBytes = new Uint32Array(guess);
    this.extras = new Uint32Array(guess);
    this.updates = new Uint8Array(16 * UPDATE_BYTES);
  }

  add(kind: number, id: number, offset: number, framedBytes: number, extra: number): void {
    const i = this.count++;
    if (i === this.kinds.length) this.#grow();
    assert(i < this.kinds.length, "a column has room for each record");
    this.kinds[i] = kind;
    this.ids[i] = id;
    this.offsets[i] = offset;
    this.framedBytes[i] = framedBytes;
    this.extras[i] = extra;
  }

  addUpdate(bytes: Uint8Array, at: number, recordBytes: number): void {
    const start = this.#updateBytes;
    this.#updateBytes += recordBytes;
    if (this.#updateBytes > this.updates.length) {
      const larger = new Uint8Array(2 * this.updates.length + recordBytes);
      larger.set(this.updates);
      this.updates = larger;
    }
    assert(this.#updateBytes <= this.updates.length, "there is room for each update");
    this.updates.set(bytes.subarray(at, at + recordBytes), start);
  }

  #grow(): void {
    assert(this.count > this.kinds.length, "only full columns grow");
    const size = 2 * this.kinds.length;
    const larger = new ColumnWriter(0);
    larger.kinds = new Uint8Array(size);
    larger.ids = new Float64Array(size);
    larger.offsets = new Uint32Array(size);
    larger.framedBytes = new Uint32Array(size);
    larger.extras = new Uint32Array(size);
    larger.kinds.set(this.kinds);
    larger.ids.set(this.ids);
    larger.offsets.set(this.offsets);
    larger.framedBytes.set(this.framedBytes);
    larger.extras.set(this.extras);
    this.kinds = larger.kinds;
    this.ids = larger.ids;
    this.offsets = larger.offsets;
    this.framedBytes = larger.framedBytes;
    this.extras = larger.extras;
  }

  done(): RecordColumns {
    const { count, kinds, ids, offsets, framedBytes, extras } = this;
    assert(count <= kinds.length && this.#updateBytes <= this.updates.length, "columns have all their rows");
    return {
      count,
      kinds,
      ids,
      offsets,
      framedBytes,
      extras,
      updates: this.updates.slice(0, this.#updateBytes),
    };
  }
}
