// The write buffer: frames put one after the other, so that a whole batch leaves in one write.

import { copyBytes } from "../../base/bytes.ts";
import { FRAME_BYTES, sealFrame } from "../format/segment-format.ts";

export class RecordBatch {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  usedBytes = 0;
  records = 0;

  constructor(capacityBytes: number) {
    this.bytes = new Uint8Array(new ArrayBuffer(capacityBytes));
    this.view = new DataView(this.bytes.buffer);
  }

  fits(recordBytes: number): boolean {
    return this.usedBytes + FRAME_BYTES + recordBytes <= this.bytes.length;
  }

  /** Copies a record behind its frame and returns where the record lies in the buffer. */
  add(
    from: Uint8Array,
    start: number,
    recordBytes: number,
    salt: number,
    sequence: number,
    synced: number,
  ): number {
    const at = this.usedBytes;
    const record = at + FRAME_BYTES;
    copyBytes(this.bytes, record, from, start, recordBytes);
    sealFrame(this.bytes, this.view, at, recordBytes, salt, sequence, synced);
    this.usedBytes = record + recordBytes;
    this.records++;
    return record;
  }

  clear(): void {
    this.usedBytes = 0;
    this.records = 0;
  }
}
