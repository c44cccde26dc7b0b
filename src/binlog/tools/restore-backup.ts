// Makes a log from a backup, in a directory without one.

import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { BackupFault, type BackupPart, BackupReader } from "../../base/backup-archive.ts";
import { segmentName, segmentNumber } from "../../base/text.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import { forgetStarts } from "../disk/checked-json.ts";
import type { Disk, Handle } from "../disk/disk.ts";

/** Suffix of the name of an incomplete segment. */
const PART = ".part";

/**
 * Writes the segments of a backup into the directory of `disk`. The oldest one gets its name last,
 * once everything is durable and checked: until then a segment is missing, and servers refuse the
 * log. If this throws, it leaves nothing behind.
 */
export async function restoreBackup(
  disk: Disk,
  pieces: AsyncIterable<Uint8Array>,
  progress: (doneBytes: number, totalBytes: number) => void,
): Promise<void> {
  forgetStarts(disk);
  const files = new RestoredFiles(disk);
  const reader = new BackupReader(crc32);
  let total = 0;
  try {
    for await (const piece of pieces) {
      for (const part of reader.take(piece)) {
        if (part.part === "begin") total = part.begin.bytes;
        files.take(part);
      }
      progress(Math.min(reader.taken, total), total);
    }
    reader.finish();
    files.finish();
  } catch (error) {
    files.remove();
    throw error instanceof BackupFault ? badBackup(error) : error;
  }
}

function badBackup(fault: BackupFault): BinlogError {
  return new BinlogError(
    "BINLOG_INPUT",
    `The backup cannot be used: ${fault.message}`,
    "Nothing was restored. Use another backup, or copy this one again from its source.",
    fault,
  );
}

class RestoredFiles {
  readonly #disk: Disk;
  /** The segment that gets its name last. */
  #held = 0;
  /** The newest segment of the backup. */
  #end = 0;
  #number = 0;
  #handle: Handle | undefined;
  #at = 0;

  constructor(disk: Disk) {
    this.#disk = disk;
    // Left by a restore that was killed.
    this.#removeParts();
  }

  take(part: BackupPart): void {
    if (part.part === "begin") {
      const { oldest, last } = part.begin;
      this.#held = Math.min(oldest, last + 1);
      this.#end = last + 1;
    } else if (part.part === "segment") this.#open(part.number);
    else if (part.part === "bytes") {
      assert(this.#handle !== undefined, "bytes of a segment follow its head");
      this.#disk.write(this.#handle, part.bytes, 0, part.bytes.length, this.#at);
      this.#at += part.bytes.length;
    } else if (part.part === "complete") this.#complete();
  }

  #open(number: number): void {
    assert(number > 0, "a segment of a backup has a number");
    assert(this.#handle === undefined, "one segment is written at a time");
    this.#number = number;
    this.#at = 0;
    this.#handle = this.#disk.open(`${segmentName(number)}${PART}`, "create");
    this.#disk.truncate(this.#handle, 0);
  }

  #complete(): void {
    assert(this.#handle !== undefined && this.#number > 0, "only a started segment completes");
    this.#disk.sync(this.#handle);
    this.#close();
    if (this.#number !== this.#held) this.#name(this.#number);
  }

  #name(number: number): void {
    this.#disk.rename(`${segmentName(number)}${PART}`, segmentName(number));
    this.#disk.syncFolder();
  }

  #close(): void {
    if (this.#handle !== undefined) this.#disk.close(this.#handle);
    this.#handle = undefined;
  }

  finish(): void {
    assert(this.#held > 0 && this.#handle === undefined, "a complete backup has segments");
    this.#name(this.#held);
  }

  /** Removes everything that was restored, first the segment that got its name last. */
  remove(): void {
    this.#close();
    for (const name of this.#disk.names().sort()) {
      const number = segmentNumber(name);
      if (number > 0 && number >= this.#held && number <= this.#end) this.#disk.unlink(name);
    }
    this.#removeParts();
    this.#disk.syncFolder();
  }

  #removeParts(): void {
    for (const name of this.#disk.names())
      if (name.endsWith(PART) && segmentNumber(name.slice(0, -PART.length)) > 0) this.#disk.unlink(name);
  }
}
