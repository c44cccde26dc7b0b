// Reads records back for compaction while the log is in use, with few open files.

import { assert } from "../../base/assert.ts";
import { Memory } from "../../base/memory.ts";
import { segmentName } from "../../base/segment-name.ts";
import { UPDATE_BYTES_MAX } from "../../message/record.ts";
import type { Segment } from "../books/segment-table.ts";
import { BinlogError, isDescriptorShortage } from "../disk/binlog-error.ts";
import { type Disk, type Handle, readFully } from "../disk/disk.ts";
import { FRAME_BYTES, frameIsWhole, HEADER_BYTES } from "../format/segment-format.ts";

const OPEN_FILES = 16;

export class SegmentReader {
  readonly #disk: Disk;
  /** In order of opening. */
  readonly #open = new Map<number, Handle>();
  readonly #update: Memory = Memory.ofSize(FRAME_BYTES + UPDATE_BYTES_MAX);

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  #handleOf(segment: Segment): Handle {
    if (segment.handle !== undefined) return segment.handle;
    const open = this.#open.get(segment.number);
    if (open !== undefined) return open;
    if (this.#open.size >= OPEN_FILES) this.#forgetFirst();
    const handle = this.#openFile(segmentName(segment.number));
    this.#open.set(segment.number, handle);
    assert(this.#open.size <= OPEN_FILES, "few files are open");
    return handle;
  }

  /** If no descriptor is left, closes open files to get one. */
  #openFile(name: string): Handle {
    for (;;) {
      try {
        return this.#disk.open(name, "read");
      } catch (error) {
        if (!isDescriptorShortage(error) || this.#open.size === 0) throw error;
        this.#forgetFirst();
      }
    }
  }

  #forgetFirst(): void {
    assert(this.#open.size > 0, "there is a file to close");
    this.forget(this.#open.keys().next().value!);
  }

  forget(number: number): void {
    const handle = this.#open.get(number);
    if (handle === undefined) return;
    this.#open.delete(number);
    this.#disk.close(handle);
  }

  close(): void {
    for (const number of [...this.#open.keys()]) this.forget(number);
    assert(this.#open.size === 0, "a closed reader has no open file");
  }

  read(segment: Segment, into: Uint8Array, length: number, position: number): number {
    assert(length <= into.length, "the bytes to read fit into their memory");
    assert(position >= HEADER_BYTES, "records lie after the header");
    return readFully(this.#disk, this.#handleOf(segment), into, 0, length, position);
  }

  /** Returns memory with an UPDATE record at FRAME_BYTES; valid until the next call. */
  readUpdate(segment: Segment, offset: number): Memory {
    const { bytes } = this.#update;
    // Most updates have no tail, and end long before the buffer does.
    this.read(segment, bytes, bytes.length, offset);
    if (!frameIsWhole(this.#update, 0, segment.salt)) this.damaged(segment, offset);
    return this.#update;
  }

  damaged(segment: Segment, offset: number): never {
    throw new BinlogError(
      "BINLOG_CORRUPT",
      `A durable record is damaged: ${this.#disk.path}/${segmentName(segment.number)} at offset ${offset}`,
      `Stop using that disk. Copy the directory, then start with --salvage, or check it with: runnerbean binlog verify ${this.#disk.path}`,
    );
  }
}
