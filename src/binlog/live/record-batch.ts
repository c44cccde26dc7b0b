// The write buffer: consecutive frames, written with a single call.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import { FRAME_BYTES, MAX_FRAMED_BYTES, sealFrame } from "../format/segment-format.ts";

export class RecordBatch {
  readonly memory: Memory;
  usedBytes = 0;
  records = 0;

  constructor(capacityBytes: number) {
    assert(capacityBytes >= MAX_FRAMED_BYTES, "the longest record fits into a batch");
    this.memory = Memory.ofSize(capacityBytes);
  }

  fits(recordBytes: number): boolean {
    if (CHECKED) assert(recordBytes > 0, "a record that fits has bytes");
    return this.usedBytes + FRAME_BYTES + recordBytes <= this.memory.bytes.length;
  }

  /** Copies a record after its frame, and returns the record's position in the buffer. */
  add(
    from: Uint8Array,
    start: number,
    recordBytes: number,
    salt: number,
    sequence: number,
    synced: number,
  ): number {
    assert(recordBytes > 0, "a record has bytes");
    assert(sequence >= synced, "no record is durable before it is added");
    const at = this.usedBytes;
    const record = at + FRAME_BYTES;
    copyBytes(this.memory.bytes, record, from, start, recordBytes);
    sealFrame(this.memory, at, recordBytes, salt, sequence, synced);
    this.usedBytes = record + recordBytes;
    this.records++;
    assert(this.usedBytes <= this.memory.bytes.length, "a batch ends inside its buffer");
    return record;
  }

  clear(): void {
    this.usedBytes = 0;
    this.records = 0;
  }
}
