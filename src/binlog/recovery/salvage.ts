// Salvages a damaged log: rewrites its undamaged records into new segments, and sets the damaged
// files aside.

import { assert } from "../../base/assert.ts";
import { Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import type { Disk } from "../disk/disk.ts";
import { LENT_IDS } from "../live/log-writer.ts";
import { Storage } from "../live/storage.ts";
import { appendBatch, appendSetting, appendWholeJob } from "../live/whole-job.ts";
import { emptyLog } from "../segments/books.ts";
import type { LogBooks } from "./log-recovery.ts";
import type { LogVerdict } from "./log-verdict.ts";
import { type OpenOptions, segmentBytesOf } from "./open-options.ts";
import { segmentNumbers } from "./read-log.ts";
import { recoveredJobs } from "./recovered-jobs.ts";

const SET_ASIDE = "set-aside";

/**
 * Writes the live jobs of a log into new segments after all others, makes them durable, and states
 * in the log that the old segments no longer count. The caller removes those. Returns the number of
 * jobs.
 */
export function rewriteLog(options: OpenOptions, verdict: LogVerdict, books: LogBooks): number {
  const { disk } = options;
  const first = Math.max(verdict.oldest, ...segmentNumbers(disk)) + 1;
  let lastSequence = verdict.lastSequence;
  for (const scan of verdict.kept) lastSequence = Math.max(lastSequence, scan.highestSequence);
  assert(lastSequence >= verdict.lastSequence, "a rewrite continues the sequence");
  const log = emptyLog(first, lastSequence + 1, books.index.maxId, verdict.oldest);
  const storage = new Storage({ ...options, log, segmentBytes: segmentBytesOf(options), syncEvery: "never" });
  for (const [pattern, { text }] of books.index.settings) appendSetting(storage, pattern, text);
  for (const batch of books.index.batches.list()) appendBatch(storage, batch);
  const source = { disk, scans: verdict.kept, index: books.index };
  for (const batch of recoveredJobs(source, 1, () => 0)) {
    const memory = new Memory(batch.bytes);
    for (const at of batch.jobs[0]!) appendWholeJob(storage, memory, at);
    storage.flush(0);
  }
  storage.dropBelow(first, 0);
  storage.close(0, true);
  if (storage.failure !== undefined) {
    // The old log still counts, and half of a new one after it would make it unreadable.
    removeSegments(
      disk,
      segmentNumbers(disk)
        .filter((number) => number >= first)
        .reverse(),
      new Set(),
    );
    throw storage.failure;
  }
  assert(storage.index.jobs === books.index.jobs, "a rewrite keeps every job");
  return storage.index.jobs;
}

export function salvageLog(options: OpenOptions, verdict: LogVerdict, books: LogBooks): void {
  const { disk, notice } = options;
  const old = segmentNumbers(disk);
  // The damage may hide a later lend.
  books.index.maxId += LENT_IDS;
  const jobs = rewriteLog(options, verdict, books);
  const damaged = new Set(verdict.problems.map((problem) => problem.segment));
  removeSegments(disk, old, damaged);
  for (const { error } of verdict.problems) {
    notice({ level: "error", code: error.code, message: error.message });
  }
  const message =
    `Salvaged ${jobs} jobs; ${lostRecords(verdict)} records could not be read. ` +
    `Damaged files are in ${disk.path}/${SET_ASIDE}`;
  notice({ level: "warn", code: "BINLOG_SALVAGED", message });
}

function removeSegments(disk: Disk, numbers: readonly number[], damaged: ReadonlySet<number>): void {
  if (damaged.size > 0) {
    disk.makeFolder(SET_ASIDE);
    disk.syncFolder();
  }
  for (const number of numbers) {
    const name = segmentName(number);
    if (damaged.has(number)) disk.rename(name, `${SET_ASIDE}/${name}`);
    else disk.unlink(name);
  }
  if (damaged.size > 0) disk.syncFolder(SET_ASIDE);
  disk.syncFolder();
}

/** Sequence numbers are consecutive, so gaps give the number of lost records. */
function lostRecords(verdict: LogVerdict): number {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = 0;
  let records = 0;
  for (const scan of verdict.kept) {
    if (scan.lowestSequence > 0) lowest = Math.min(lowest, scan.lowestSequence);
    highest = Math.max(highest, scan.highestSequence);
    records += scan.records;
  }
  return records === 0 ? 0 : highest - lowest + 1 - records;
}
