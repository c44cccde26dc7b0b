// From a directory to a log in use: lock, take over what beanstalkd left, scan, judge, repair or salvage, begin.

import { MAX_RECORD_BYTES } from "../message/record.ts";
import { segmentBytesMin } from "../message/topology.ts";
import { asBinlogError, type BinlogError } from "./binlog-error.ts";
import type { Disk } from "./disk.ts";
import { bookRecords, type LogBooks, repairLog } from "./log-recovery.ts";
import { judgeLog, type LogVerdict } from "./log-verdict.ts";
import { type RecoveredBatch, recoveredJobs, type ShardOf } from "./recovered-jobs.ts";
import { salvageLog } from "./salvage.ts";
import { scanLog } from "./scan-log.ts";
import { segmentName } from "./segment-format.ts";
import { Storage, type StorageNotice } from "./storage.ts";
import type { SyncEvery } from "./sync-policy.ts";
import { takeOverBeanstalkd } from "./takeover.ts";

/** Smaller segments would not hold a few of the longest records. */
export const SEGMENT_BYTES_MIN = 8 * MAX_RECORD_BYTES;
export const SEGMENT_BYTES_DEFAULT = 10 * 1024 * 1024;

export interface OpenOptions {
  disk: Disk;
  shards: number;
  /** -s; raised to SEGMENT_BYTES_MIN, and to what so many shards need, unless `smallSegments`. */
  segmentBytes: number;
  syncEvery: SyncEvery;
  salvage: boolean;
  /** Threads may open the directory by its path: true on a real disk. */
  parallel: boolean;
  /** For simulations, whose records are small. */
  smallSegments?: boolean;
  randomSalt: () => number;
  wallMs: () => number;
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  progress: (doneBytes: number, totalBytes: number) => void;
  /** Whether to stop before everything is read: then a StartInterrupted is thrown, and the next start begins anew. */
  stopping?: () => boolean;
  /** Told in which segment a job's full record is, whenever one is written. */
  onFull?: (id: number, segment: number) => void;
}

export interface OpenedBinlog {
  storage: Storage;
  /** 1 + the highest id ever given that the log knows. */
  nextId: number;
  jobCount: number;
  /** The jobs, batch by batch; to be used up before the first append. */
  jobs: (shardOf: ShardOf) => Generator<RecoveredBatch>;
}

/** Throws a BinlogError if the log cannot be used. The directory must be locked (directory-lock.ts). */
export async function openBinlog(options: OpenOptions): Promise<OpenedBinlog> {
  try {
    return await open(options);
  } catch (error) {
    throw asBinlogError(error, options.disk.path);
  }
}

async function open(options: OpenOptions): Promise<OpenedBinlog> {
  const { disk, notice } = options;
  await takeOverBeanstalkd(options);
  let { verdict, books } = await readLog(options, false);
  if (verdict.problems.length > 0) {
    if (!options.salvage) throw firstProblem(verdict);
    // Only now also what stands behind the damage: in a log that is merely torn it must not count.
    ({ verdict, books } = await readLog(options, true));
    salvageLog(options, verdict, books);
    ({ verdict, books } = await readLog(options, false));
    if (verdict.problems.length > 0) throw firstProblem(verdict);
  }
  noteRepairs(verdict, books, disk.path, notice);
  const log = repairLog(disk, verdict, books);
  const segmentBytes = segmentBytesOf(options);
  noteSegmentBytes(options, segmentBytes);
  const storage = new Storage({ ...options, log, segmentBytes });
  const source = { disk, scans: verdict.kept, index: books.index };
  return {
    storage,
    nextId: books.index.maxId + 1,
    jobCount: books.index.jobs,
    jobs: (shardOf) => recoveredJobs(source, options.shards, shardOf),
  };
}

export function segmentBytesOf(options: OpenOptions): number {
  return options.smallSegments === true
    ? options.segmentBytes
    : Math.max(SEGMENT_BYTES_MIN, segmentBytesMin(options.shards), options.segmentBytes);
}

/** Scans and judges without changing anything. */
export async function readLog(
  options: Pick<OpenOptions, "disk" | "parallel" | "progress" | "stopping">,
  salvage: boolean,
): Promise<{ verdict: LogVerdict; books: LogBooks }> {
  const scans = await scanLog({ ...options, salvage });
  const verdict = judgeLog(scans, options.disk.path);
  return { verdict, books: bookRecords(verdict) };
}

function firstProblem(verdict: LogVerdict): BinlogError {
  return verdict.problems[0]!.error;
}

/** Silent where a file has a mebibyte instead of less, which concerns nobody. */
function noteSegmentBytes(options: OpenOptions, segmentBytes: number): void {
  if (segmentBytes <= Math.max(SEGMENT_BYTES_MIN, options.segmentBytes)) return;
  const message = `${options.shards} shards need log files of ${segmentBytes} bytes: -s ${options.segmentBytes} is too small`;
  options.notice({ level: "info", code: "BINLOG_SEGMENT_BYTES", message });
}

function noteRepairs(
  verdict: LogVerdict,
  books: LogBooks,
  path: string,
  notice: (notice: StorageNotice) => void,
): void {
  const { tail, cutBytes } = verdict;
  if (tail !== undefined && cutBytes > 0) {
    const where = `${path}/${segmentName(tail.number)} at offset ${tail.at}`;
    const message = `Cut a torn tail of ${cutBytes} bytes from ${where}: a write that was not durable (${tail.reason})`;
    notice({ level: "warn", code: "BINLOG_TORN_TAIL", message });
  }
  for (const number of verdict.discard) {
    const message = `Removed ${path}/${segmentName(number)}: it was made ahead, never used, and is not whole`;
    notice({ level: "info", code: "BINLOG_UNUSED_SEGMENT", message });
  }
  if (books.unfinished > 0) {
    const message = `Left out ${books.unfinished} jobs whose body was not complete when the server stopped`;
    notice({ level: "warn", code: "BINLOG_UNFINISHED", message });
  }
}
