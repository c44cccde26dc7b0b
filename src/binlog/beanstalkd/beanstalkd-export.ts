// Exports the jobs of a log as files of version 7, which beanstalkd 1.12 and newer read, for a move
// back.

import { assert } from "../../base/assert.ts";
import { RecordState } from "../../message/record.ts";
import { Attribute, countAttributes, findAttribute } from "../../protocol/job-attribute.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import type { Disk, Handle } from "../disk/disk.ts";
import { type RecoveredBatch, wholeJobs } from "../recovery/recovered-jobs.ts";
import {
  beanstalkdFileName,
  beanstalkdFiles,
  beanstalkdRecordBytes,
  encodeBeanstalkdRecord,
} from "./beanstalkd-log.ts";

const FILE_BYTES = 10 * 1024 * 1024;
/** When beanstalkd reads a log, it compares body plus CRLF with its -z (default 65535). */
const DEFAULT_BODY_BYTES_MAX = 65_533;

export interface ExportResult {
  jobs: number;
  files: number;
  /** The -z that beanstalkd needs to read every body; 0 if its default suffices. */
  neededMaxJobBytes: number;
  /** Attributes that beanstalkd lacks, and the number of jobs that lose some. */
  attributesDropped: number;
  jobsWithAttributes: number;
  /** Number of unique keys of jobs that no longer exist. */
  keysDropped: number;
  /** Number of tube patterns with settings. */
  settingsDropped: number;
  schedulesDropped: number;
  /** Number of jobs that waited for a batch, and are buried. */
  waitsBuried: number;
  /** Jobs that were cancelled while a client held them. */
  cancelledDropped: number;
}

/**
 * `out` must be a directory without a log of beanstalkd. `clockAheadMs` is how far the wall clock
 * is ahead of the log's.
 */
export function exportForBeanstalkd(
  batches: Iterable<RecoveredBatch>,
  out: Disk,
  settingsDropped = 0,
  clockAheadMs = 0,
): ExportResult {
  if (beanstalkdFiles(out).length > 0) {
    throw new BinlogError(
      "BINLOG_INPUT",
      `${out.path} already holds files of beanstalkd (binlog.N)`,
      "Export to an empty directory.",
    );
  }
  const writer = new FileWriter(out);
  let largest = 0;
  const dropped = {
    attributesDropped: 0,
    jobsWithAttributes: 0,
    keysDropped: 0,
    settingsDropped,
    schedulesDropped: 0,
    waitsBuried: 0,
    cancelledDropped: 0,
  };
  // beanstalkd derives the order of buried jobs from the order of their records, so these records
  // go last.
  const buried: { order: number; record: Uint8Array }[] = [];
  for (const { fields, tube, attributes, body } of wholeJobs(batches)) {
    const what = lost(fields.state, attributes);
    if (what !== undefined) {
      dropped[what]++;
      continue;
    }
    const count = countAttributes(attributes, 0, attributes.length);
    dropped.attributesDropped += count;
    if (count > 0) dropped.jobsWithAttributes++;
    largest = Math.max(largest, body.length);
    if (findAttribute(attributes, 0, attributes.length, Attribute.After) >= 0) {
      // Nothing would end its wait, and beanstalkd can't express such a deadline.
      fields.state = RecordState.buried;
      fields.burySequence = Number.MAX_SAFE_INTEGER;
      dropped.waitsBuried++;
    }
    // A deadline of 0 is none, and beanstalkd ignores those of jobs that aren't delayed.
    fields.createdAtMs += clockAheadMs;
    fields.deadlineAtMs += clockAheadMs;
    const record = new Uint8Array(beanstalkdRecordBytes(tube.length, body.length));
    const length = encodeBeanstalkdRecord(record, fields, tube, body);
    assert(length === record.length, "a record of beanstalkd has the length that was reserved");
    if (fields.state === RecordState.buried) buried.push({ order: fields.burySequence, record });
    else writer.add(record);
  }
  buried.sort((a, b) => a.order - b.order);
  for (const { record } of buried) writer.add(record);
  writer.end();
  const neededMaxJobBytes = largest > DEFAULT_BODY_BYTES_MAX ? largest + 2 : 0;
  return { jobs: writer.records, files: writer.files, neededMaxJobBytes, ...dropped };
}

/** Returns as what a record is counted that beanstalkd has no job for. */
function lost(
  state: RecordState,
  attributes: Uint8Array,
): "keysDropped" | "schedulesDropped" | "cancelledDropped" | undefined {
  if (state === RecordState.remembered) return "keysDropped";
  if (state === RecordState.schedule) return "schedulesDropped";
  const isCancelled = findAttribute(attributes, 0, attributes.length, Attribute.Cancelled) >= 0;
  return isCancelled ? "cancelledDropped" : undefined;
}

/** Writes files of about FILE_BYTES; each ends with its last record. */
class FileWriter {
  readonly #disk: Disk;
  #handle: Handle | undefined;
  #at = 0;
  files = 0;
  records = 0;

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  add(record: Uint8Array): void {
    assert(record.length > 0, "a record of a job has bytes");
    if (this.#handle !== undefined && this.#at + record.length > FILE_BYTES) this.#finish();
    if (this.#handle === undefined) this.#begin();
    assert(this.#handle !== undefined && this.#at >= 4, "a record follows the version of its file");
    this.#disk.write(this.#handle, record, 0, record.length, this.#at);
    this.#at += record.length;
    this.records++;
  }

  #begin(): void {
    assert(this.#handle === undefined, "one file of beanstalkd is written at a time");
    this.#handle = this.#disk.open(beanstalkdFileName(++this.files), "create");
    const version = Uint8Array.of(7, 0, 0, 0);
    this.#disk.write(this.#handle, version, 0, 4, 0);
    this.#at = 4;
  }

  #finish(): void {
    assert(this.#handle !== undefined, "only an open file is ended");
    this.#disk.sync(this.#handle);
    this.#disk.close(this.#handle);
    this.#handle = undefined;
  }

  end(): void {
    assert((this.#handle === undefined) === (this.files === 0), "a file stays open until the export ends");
    if (this.#handle !== undefined) this.#finish();
    this.#disk.syncFolder();
  }
}
