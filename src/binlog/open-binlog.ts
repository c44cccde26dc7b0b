// Opens a directory as a log in use: takes over beanstalkd's files, scans, judges, repairs or
// salvages, and begins.

import { assert } from "../base/assert.ts";
import { shardOfTube } from "../base/bytes.ts";
import { segmentName } from "../base/text.ts";
import type { LoggedBatch } from "../message/flow-record.ts";
import { RECORD_ID_AT } from "../message/record.ts";
import type { Topology } from "../message/topology.ts";
import { FileTable } from "../ring/shared-words.ts";
import { takeOverBeanstalkd } from "./beanstalkd/takeover.ts";
import { asBinlogError, type BinlogError } from "./disk/binlog-error.ts";
import { LogClock } from "./live/log-clock.ts";
import type { StorageNotice } from "./live/log-writer.ts";
import { Storage } from "./live/storage.ts";
import { clockAheadMs, type LogBooks, newestMs, repairLog, settingsOf } from "./recovery/log-recovery.ts";
import type { LogVerdict } from "./recovery/log-verdict.ts";
import { type OpenOptions, SEGMENT_BYTES_MIN, segmentBytesOf } from "./recovery/open-options.ts";
import { readLog } from "./recovery/read-log.ts";
import { type RecoveredBatch, recoveredJobs, type ShardOf } from "./recovery/recovered-jobs.ts";
import { salvageLog } from "./recovery/salvage.ts";

export interface OpenedBinlog {
  storage: Storage;
  /** One more than the highest id that was assigned according to the log. */
  nextId: number;
  /** Number of jobs, without jobs whose unique key alone is remembered. */
  jobCount: number;
  /** Settings of tubes by pattern. */
  settings: ReadonlyMap<string, string>;
  /** Batches, with their tallies. */
  batches: readonly LoggedBatch[];
  /**
   * Starts the log's clock, given wall clock minus monotonic clock. The times of jobs and batches
   * are its times.
   */
  startClock: (wallOffsetMs: () => number, nowMs: number) => LogClock;
  /** Yields the jobs in batches; consume it before the first append. */
  jobs: (shardOf: ShardOf) => Generator<RecoveredBatch>;
}

/**
 * Throws a BinlogError if the log is unusable. The directory must be locked (directory-lock.ts).
 */
export async function openBinlog(options: OpenOptions): Promise<OpenedBinlog> {
  try {
    return await open(options);
  } catch (error) {
    throw asBinlogError(error, options.disk.path);
  }
}

async function open({ chain, ...options }: OpenOptions): Promise<OpenedBinlog> {
  const { disk, notice } = options;
  await takeOverBeanstalkd(options);
  let { verdict, books } = await readLog(options, false);
  if (verdict.problems.length > 0) {
    if (!options.salvage) throw firstProblem(verdict);
    // Only now read beyond the damage as well: in a log that merely has a torn tail, nothing after
    // it may count.
    ({ verdict, books } = await readLog(options, true));
    salvageLog(options, verdict, books);
    ({ verdict, books } = await readLog(options, false));
    if (verdict.problems.length > 0) throw firstProblem(verdict);
  }
  noteRepairs(verdict, books, disk.path, notice);
  const log = repairLog(disk, verdict, books);
  const segmentBytes = segmentBytesOf(options);
  noteSegmentBytes(options, segmentBytes);
  const storage = new Storage({ ...options, log, segmentBytes, chain });
  assert(books.index.maxId >= 0, "the next id is above all others");
  const source = { disk, scans: verdict.kept, index: books.index };
  return {
    storage,
    nextId: books.index.maxId + 1,
    jobCount: books.index.jobs,
    settings: settingsOf(books),
    batches: books.index.batches.list(),
    startClock: (wallOffsetMs, nowMs) =>
      new LogClock({
        storage,
        notedMs: clockAheadMs(books),
        newestMs: newestMs(verdict),
        wallOffsetMs,
        nowMs,
      }),
    jobs: (shardOf) => recoveredJobs(source, options.shards, shardOf),
  };
}

/** Yields the recovered jobs in batches, and records the file of each for stats-job. */
export function* recoveredWithFiles(opened: OpenedBinlog, topology: Topology): Generator<RecoveredBatch> {
  const { shards, binlog } = topology;
  const { index } = opened.storage;
  const files = new FileTable(binlog!.files);
  for (const batch of opened.jobs((bytes, start, length) =>
    shardOfTube(bytes, start, start + length, shards),
  )) {
    const view = new DataView(batch.bytes.buffer, batch.bytes.byteOffset);
    for (const offsets of batch.jobs) {
      for (const offset of offsets) {
        const id = view.getFloat64(offset + RECORD_ID_AT, true);
        files.set(id, index.fullSegmentOf(id));
      }
    }
    yield batch;
  }
}

function firstProblem(verdict: LogVerdict): BinlogError {
  return verdict.problems[0]!.error;
}

/** Silent if a file merely takes a mebibyte instead of less; operators needn't know that. */
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
    const message = `Removed ${path}/${segmentName(number)}: it was created ahead, never used, and is incomplete`;
    notice({ level: "info", code: "BINLOG_UNUSED_SEGMENT", message });
  }
  if (books.unfinished > 0) {
    const message = `Left out ${books.unfinished} jobs whose body was not complete when the server stopped`;
    notice({ level: "warn", code: "BINLOG_UNFINISHED", message });
  }
}
