// Takes over a directory of beanstalkd: copies its jobs to our log, then moves its files to a
// subfolder.
//
// Two notes in our log make this safe to interrupt: "begin" before the first job and "end" after
// the last. Both are durable before beanstalkd's files move. After "begin" without "end", the
// takeover discards our log and starts over. After "end" for the very files that are still there,
// only the move remains.

import { crc32 } from "node:zlib";
import { unpack } from "msgpackr/unpack";
import { assert } from "../../base/assert.ts";
import { copyBytes, Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import { encodePutHead, putRecordBytes } from "../../message/record.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import { forgetStarts } from "../disk/checked-json.ts";
import type { Disk } from "../disk/disk.ts";
import { Storage } from "../live/storage.ts";
import { appendWholeJob } from "../live/whole-job.ts";
import { repairLog } from "../recovery/log-recovery.ts";
import { type OpenOptions, StartInterrupted, segmentBytesOf } from "../recovery/open-options.ts";
import { readLog, segmentNumbers } from "../recovery/read-log.ts";
import type { SegmentScan } from "../recovery/segment-scan.ts";
import { emptyLog, type LogState } from "../segments/books.ts";
import { FRAME_BYTES } from "../segments/segment-format.ts";
import {
  type BeanstalkdLog,
  beanstalkdFileName,
  beanstalkdFiles,
  readBeanstalkdFile,
  readBeanstalkdLog,
} from "./beanstalkd-log.ts";

/** The checksum is computed in pieces, because a file may exceed 32 bits. */
const CRC_BYTES = 2 ** 30;

interface TakeoverNote {
  takeover: "begin" | "end";
  /** The destination of the files. */
  folder: string;
  /** Fingerprint of the files. They move in order, so it covers the last one. */
  files: string;
}

export async function takeOverBeanstalkd(options: OpenOptions): Promise<void> {
  const { disk } = options;
  const files = beanstalkdFiles(disk);
  if (files.length === 0) return;
  const print = fingerprint(disk, files);
  let folder = folderFor(disk, print);
  const state = await stateOfOurs(options, print);
  if (typeof state === "string") folder = state;
  else {
    forgetStarts(disk);
    copyJobs(options, state, folder, print);
  }
  moveFiles(options, files, folder);
}

function fingerprint(disk: Disk, files: readonly number[]): string {
  assert(files.length > 0, "a takeover has files");
  const last = files.at(-1)!;
  const bytes = readBeanstalkdFile(disk, last);
  let crc = 0;
  for (let at = 0; at < bytes.length; at += CRC_BYTES) crc = crc32(bytes.subarray(at, at + CRC_BYTES), crc);
  return `${last}-${bytes.length}-${crc.toString(16).padStart(8, "0")}`;
}

function folderFor(disk: Disk, print: string): string {
  const name = `beanstalkd-${print}`;
  return disk.names(name).length === 0 ? name : `${name}-again`;
}

/**
 * Returns the log to continue. If our log already has all jobs, returns the folder for the files
 * instead.
 */
async function stateOfOurs(options: OpenOptions, print: string): Promise<LogState | string> {
  const { disk } = options;
  if (segmentNumbers(disk).length === 0) return emptyLog();
  const { verdict, books } = await readLog(options, false);
  const note = lastNote(disk, verdict.kept);
  // While these very files are here, no client was served from our log, so it can be rebuilt.
  if (note?.takeover === "begin" && note.files === print) return discardOurs(disk, books.index.maxId);
  const problem = verdict.problems[0];
  if (problem !== undefined) throw problem.error;
  if (note?.takeover === "end" && note.files === print) return note.folder;
  const { jobs, remembered, schedules, batches } = books.index;
  // One of beanstalkd's jobs may have the id of a job whose key is remembered, or a batch's number.
  if (jobs + remembered + schedules + batches.count === 0) return repairLog(disk, verdict, books);
  const keys = remembered === 0 ? "" : ` and ${remembered} remembered unique keys`;
  const timed = schedules === 0 ? "" : ` and ${schedules} schedules`;
  const grouped = batches.count === 0 ? "" : ` and ${batches.count} batches`;
  throw new BinlogError(
    "BINLOG_TWO_LOGS",
    `${disk.path} holds a log of runnerbean with ${jobs} jobs${keys}${timed}${grouped} and files of beanstalkd (binlog.N)`,
    "Move one of the two into another directory: the server can't tell which one is newer.",
  );
}

function lastNote(disk: Disk, scans: readonly SegmentScan[]): TakeoverNote | undefined {
  const scan = scans.findLast((one) => one.notes.length > 0);
  if (scan === undefined) return undefined;
  const at = scan.notes.at(-1)!;
  const handle = disk.open(segmentName(scan.number), "read");
  try {
    const frame = new Uint8Array(FRAME_BYTES);
    disk.read(handle, frame, 0, FRAME_BYTES, at);
    const note = new Uint8Array(new DataView(frame.buffer).getUint32(4, true) - 1);
    disk.read(handle, note, 0, note.length, at + FRAME_BYTES + 1);
    return takeoverNoteOf(note, `${disk.path}/${segmentName(scan.number)}`);
  } finally {
    disk.close(handle);
  }
}

/** Reads a note; refuses MessagePack that no takeover writes. */
export function takeoverNoteOf(bytes: Uint8Array, path: string): TakeoverNote {
  let note: Partial<TakeoverNote> | undefined;
  try {
    note = unpack(bytes);
  } catch {
    // Refused below.
  }
  const { takeover, folder, files } = note ?? {};
  if ((takeover === "begin" || takeover === "end") && typeof folder === "string" && typeof files === "string")
    return { takeover, folder, files };
  throw new BinlogError(
    "BINLOG_CORRUPT",
    `${path} is damaged: the record of taking over beanstalkd's files is unreadable`,
    "Check which of the two logs holds your jobs, and move the other one to another directory.",
  );
}

/**
 * Deletes the newest first, so that the rest of an interrupted discard still begins with "begin"
 * and lacks "end".
 */
function discardOurs(disk: Disk, maxId: number): LogState {
  for (const number of segmentNumbers(disk).reverse()) {
    disk.unlink(segmentName(number));
    disk.syncFolder();
  }
  return emptyLog(1, 0, maxId);
}

function copyJobs(options: OpenOptions, log: LogState, folder: string, files: string): void {
  const { disk, notice } = options;
  const old = readBeanstalkdLog(disk, options.salvage, options.stopping);
  for (const message of old.warnings) notice({ level: "warn", code: "BINLOG_TAKEOVER", message });
  log.index.maxId = Math.max(log.index.maxId, old.maxId);
  const storage = new Storage({ ...options, log, segmentBytes: segmentBytesOf(options), syncEvery: "never" });
  storage.appendNote({ takeover: "begin", folder, files } satisfies TakeoverNote);
  storage.syncNow(0);
  try {
    appendJobs(disk, storage, old, options.stopping);
  } catch (error) {
    // Without "end", the next start repeats the takeover.
    if (error instanceof StartInterrupted) storage.close(0);
    throw error;
  }
  storage.appendNote({ takeover: "end", folder, files } satisfies TakeoverNote);
  storage.close(0);
  if (storage.failure !== undefined) throw storage.failure;
  const message = `Took over ${old.jobs.size} jobs from beanstalkd's files in ${disk.path}`;
  notice({ level: "info", code: "BINLOG_TAKEOVER", message });
}

function appendJobs(
  disk: Disk,
  storage: Storage,
  old: BeanstalkdLog,
  stopping: OpenOptions["stopping"],
): void {
  const byFile = Map.groupBy(old.jobs.values(), (job) => job.file);
  let scratch = Memory.ofSize(65_536);
  for (const [file, jobs] of byFile) {
    StartInterrupted.check(stopping);
    const bytes = readBeanstalkdFile(disk, file);
    for (const { fields, tube, bodyAt, bodyBytes } of jobs) {
      const length = putRecordBytes(tube.length, bodyBytes);
      if (length > scratch.bytes.length) scratch = Memory.ofSize(2 * length);
      const to = encodePutHead(scratch, 0, fields, tube, bodyBytes);
      assert(to + bodyBytes <= scratch.bytes.length, "a job that is taken over fits into its memory");
      copyBytes(scratch.bytes, to, bytes, bodyAt, bodyBytes);
      appendWholeJob(storage, scratch, 0);
      if (storage.failure !== undefined) throw storage.failure;
    }
  }
}

function moveFiles(options: OpenOptions, files: readonly number[], folder: string): void {
  const { disk, notice } = options;
  disk.makeFolder(folder);
  disk.syncFolder();
  for (const number of files) {
    const name = beanstalkdFileName(number);
    disk.rename(name, `${folder}/${name}`);
  }
  disk.syncFolder(folder);
  disk.syncFolder();
  const message = `The files of beanstalkd are kept in ${disk.path}/${folder}; delete it when you don't want to go back`;
  notice({ level: "info", code: "BINLOG_TAKEOVER", message });
}
