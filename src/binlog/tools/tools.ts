// Implements `runnerbean binlog …` on a directory that no server uses; each tool holds the lock
// while it works.

import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createReadStream, createWriteStream, mkdirSync, rmSync, statSync } from "node:fs";
import { segmentName } from "../../base/text.ts";
import type { Damage } from "../../message/log-figures.ts";
import { type ExportResult, exportForBeanstalkd } from "../beanstalkd/beanstalkd-export.ts";
import { beanstalkdFiles } from "../beanstalkd/beanstalkd-log.ts";
import { asBinlogError, BinlogError, reasonOf } from "../disk/binlog-error.ts";
import { DirectoryLock } from "../disk/directory-lock.ts";
import { RealDisk } from "../disk/real-disk.ts";
import type { StorageNotice } from "../live/log-writer.ts";
import { checkFile } from "../recovery/check-file.ts";
import { clockAheadMs, type LogBooks, settingsOf } from "../recovery/log-recovery.ts";
import type { LogVerdict } from "../recovery/log-verdict.ts";
import { type OpenOptions, SEGMENT_BYTES_DEFAULT } from "../recovery/open-options.ts";
import { readLog, segmentNumbers } from "../recovery/read-log.ts";
import { recoveredJobs } from "../recovery/recovered-jobs.ts";
import { rewriteLog } from "../recovery/salvage.ts";
import { dumpLines, restoreLog } from "./dump.ts";
import { type InspectReport, inspectLog } from "./inspect-log.ts";
import { restoreBackup } from "./restore-backup.ts";

export interface ToolOptions {
  path: string;
  /** Also use undamaged records beyond damage. */
  salvage?: boolean;
  segmentBytes?: number;
  progress?: (doneBytes: number, totalBytes: number) => void;
  notice?: (notice: StorageNotice) => void;
}

function openOptions(options: ToolOptions): OpenOptions {
  return {
    disk: RealDisk.ofTool(options.path),
    shards: 1,
    segmentBytes: options.segmentBytes ?? SEGMENT_BYTES_DEFAULT,
    syncEvery: "never",
    salvage: options.salvage === true,
    parallel: true,
    randomSalt: () => randomInt(2 ** 32 - 1),
    wallMs: Date.now,
    clockMs: () => performance.now(),
    notice: options.notice ?? (() => {}),
    progress: options.progress ?? (() => {}),
  };
}

async function locked<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = DirectoryLock.take(path);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/** Reads the log under the lock without changing it. */
async function withLog<T>(
  options: ToolOptions,
  tolerant: boolean,
  work: (open: OpenOptions, verdict: LogVerdict, books: LogBooks) => Promise<T> | T,
): Promise<T> {
  return locked(options.path, async () => {
    const open = openOptions(options);
    if (segmentNumbers(open.disk).length === 0) {
      const theirs = beanstalkdFiles(open.disk).length > 0;
      throw new BinlogError(
        "BINLOG_INPUT",
        `There is no log of runnerbean in ${options.path}`,
        theirs
          ? "Its files are beanstalkd's: to take them over, start runnerbean with -b on this directory."
          : "Give the directory that the server uses with -b.",
      );
    }
    const { verdict, books } = await readLog(open, open.salvage).catch((error: unknown) => {
      throw asBinlogError(error, options.path);
    });
    const problem = verdict.problems[0];
    if (problem !== undefined && !tolerant && !open.salvage) throw problem.error;
    return work(open, verdict, books);
  });
}

/** Reports segments, space and jobs. */
export function inspect(options: ToolOptions): Promise<InspectReport> {
  return withLog(options, true, (open, verdict, books) => inspectLog(open.disk, verdict, books));
}

interface VerifyReport {
  whole: boolean;
  segments: number;
  records: number;
  jobs: number;
  /** Bytes of an unfinished write: not damage, the next start truncates them. */
  tornBytes: number;
  problems: BinlogError[];
}

/** Reads and checks every byte. */
export function verify(options: ToolOptions): Promise<VerifyReport> {
  return withLog(options, true, (_, verdict, books) => verifyReport(verdict, books));
}

function verifyReport(verdict: LogVerdict, books: LogBooks): VerifyReport {
  return {
    whole: verdict.problems.length === 0,
    segments: verdict.kept.length,
    records: verdict.kept.reduce((sum, scan) => sum + scan.records, 0),
    jobs: books.index.jobs,
    tornBytes: verdict.cutBytes,
    problems: verdict.problems.map((problem) => problem.error),
  };
}

/** Lists every damaged place of the files that are no longer written, as a running server does. */
export function scrub(options: ToolOptions): Promise<{ files: number; damage: Damage[] }> {
  return withLog(options, true, async (_, { kept, tail }) => {
    const sealed = kept.filter((scan) => scan !== tail);
    const damage: Damage[] = [];
    for (const { number } of sealed) damage.push(...((await checkFile(options.path, number))?.damage ?? []));
    return { files: sealed.length, damage };
  });
}

/** Writes all jobs to a stream and returns their number. */
export function dump(options: ToolOptions, to: NodeJS.WritableStream): Promise<number> {
  return withLog(options, false, async (open, verdict, books) => {
    const batches = recoveredJobs({ disk: open.disk, scans: verdict.kept, index: books.index }, 1, () => 0);
    const extras = {
      settings: new Map([...books.index.settings].map(([pattern, { text }]) => [pattern, text])),
      batches: books.index.batches.list(),
      hasAttributes: verdict.kept.some((scan) => scan.hasAttributes),
    };
    for (const line of dumpLines(batches, books.index.maxId + 1, extras))
      if (!to.write(line)) await once(to, "drain");
    return books.index.jobs;
  });
}

export async function dumpToFile(options: ToolOptions, file: string): Promise<number> {
  const stream = createWriteStream(file, { flags: "wx", mode: 0o600, flush: true });
  // An error may arrive while nothing awaits the stream; it must not end the process before it is
  // reported.
  const ended = once(stream, "close");
  ended.catch(() => {});
  await once(stream, "open");
  const jobs = await dump(options, stream).catch((error: unknown) => {
    // What is left would be in the way of the next attempt.
    stream.destroy();
    rmSync(file, { force: true });
    throw error;
  });
  stream.end();
  await ended;
  return jobs;
}

/** Yields the lines of a stream without their line feeds. */
async function* linesOf(from: NodeJS.ReadableStream): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  for await (const chunk of from) {
    let bytes = Buffer.from(chunk);
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10)) {
      parts.push(bytes.subarray(0, end));
      yield Buffer.concat(parts).toString();
      parts = [];
      bytes = bytes.subarray(end + 1);
    }
    parts.push(bytes);
  }
  const rest = Buffer.concat(parts);
  if (rest.length > 0) yield rest.toString();
}

/** Creates a log from a dump in a directory without one, and returns its number of jobs. */
export async function restore(options: ToolOptions, from: NodeJS.ReadableStream): Promise<number> {
  return locked(options.path, async () => {
    const open = openOptions(options);
    mustBeEmpty(open);
    return restoreLog(open, linesOf(from));
  });
}

function mustBeEmpty({ disk }: OpenOptions): void {
  if (segmentNumbers(disk).length === 0 && beanstalkdFiles(disk).length === 0) return;
  throw new BinlogError(
    "BINLOG_INPUT",
    `${disk.path} already holds a log`,
    "Restore into an empty directory.",
  );
}

/**
 * Creates a log from a backup, stdin by default, in a directory without one, which it creates if it
 * is missing. Then reads every byte of that log.
 */
export async function restoreFromBackup(options: ToolOptions, file?: string): Promise<VerifyReport> {
  const from = file === undefined ? process.stdin : createReadStream(file);
  // Checks that the file exists before it creates a directory for it.
  if (file !== undefined) await once(from, "ready");
  makeFolder(options.path);
  return locked(options.path, async () => {
    const open = openOptions(options);
    mustBeEmpty(open);
    await restoreBackup(open.disk, from as AsyncIterable<Uint8Array>, open.progress);
    const { verdict, books } = await readLog({ ...open, progress: () => {} }, false);
    return verifyReport(verdict, books);
  });
}

export async function restoreFromFile(options: ToolOptions, file: string): Promise<number> {
  const from = createReadStream(file);
  try {
    // Reports a file that can't be opened before any other fault.
    await once(from, "ready");
    return await restore(options, from);
  } finally {
    from.destroy();
  }
}

interface CompactReport {
  jobs: number;
  bytesBefore: number;
  bytesAfter: number;
}

/** Rewrites the log so that it holds only the live jobs. */
export function compact(options: ToolOptions): Promise<CompactReport> {
  return withLog(options, false, async (open, verdict, books) => {
    const before = inspectSizes(open);
    const old = segmentNumbers(open.disk);
    const jobs = rewriteLog(open, verdict, books);
    for (const number of old) open.disk.unlink(segmentName(number));
    open.disk.syncFolder();
    return { jobs, bytesBefore: before, bytesAfter: inspectSizes(open) };
  });
}

function inspectSizes({ disk }: OpenOptions): number {
  let sum = 0;
  for (const number of segmentNumbers(disk)) {
    const handle = disk.open(segmentName(number), "read");
    sum += disk.bytes(handle);
    disk.close(handle);
  }
  return sum;
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    const message = `Cannot make ${path}: ${reasonOf(error)}`;
    throw new BinlogError("BINLOG_INPUT", message, "Give another directory.", error);
  }
}

/** Writes a log that beanstalkd can read into `out`, creating the directory if necessary. */
export function exportBeanstalkd(options: ToolOptions, out: string): Promise<ExportResult> {
  return withLog(options, false, (open, verdict, books) => {
    makeFolder(out);
    const batches = recoveredJobs({ disk: open.disk, scans: verdict.kept, index: books.index }, 1, () => 0);
    return exportForBeanstalkd(batches, RealDisk.ofTool(out), settingsOf(books).size, clockAheadMs(books));
  });
}

/** What root has restored for a server that doesn't run as root, it has to give away. */
export const ownerHint = (path: string): string =>
  process.getuid!() === 0 && statSync(path).uid === 0
    ? `; its files belong to root: give them to the server's user with chown -R USER: ${path}`
    : "";
