// Reports the content of a log: segments, live and dead bytes, jobs by tube and state.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/text.ts";
import { RecordState } from "../../message/record.ts";
import type { Disk } from "../disk/disk.ts";
import { type LogBooks, settingsOf } from "../recovery/log-recovery.ts";
import type { LogVerdict } from "../recovery/log-verdict.ts";
import { recoveredJobs, wholeJobs } from "../recovery/recovered-jobs.ts";

interface SegmentReport {
  file: string;
  /**
   * `left`: complete. `current`: written last. `ahead`: created for later. `dropped`: no longer
   * counts.
   */
  role: "left" | "current" | "ahead" | "dropped";
  fileBytes: number;
  usedBytes: number;
  liveBytes: number;
  records: number;
  createdAtMs: number;
}

interface TubeReport {
  tube: string;
  ready: number;
  delayed: number;
  buried: number;
  /** Number of unique keys of jobs that no longer exist, and are not available again yet. */
  remembered: number;
  schedules: number;
  bodyBytes: number;
  oldestCreatedAtMs: number;
}

export interface InspectReport {
  path: string;
  segments: SegmentReport[];
  fileBytes: number;
  /** Bytes that a rewrite of the live jobs takes. */
  liveBytes: number;
  jobs: number;
  /** Number of unique keys of jobs that no longer exist. */
  remembered: number;
  schedules: number;
  nextId: number;
  tubes: TubeReport[];
  /** Settings of tubes. */
  settings: { pattern: string; text: string }[];
  /**
   * In a group: the last batch. Of several directories of a group, the one with the highest epoch,
   * then the highest `n`, is the most advanced.
   */
  group?: { epoch: number; n: number } | undefined;
  problems: { code: string; message: string; nextStep: string }[];
}

export function inspectLog(disk: Disk, verdict: LogVerdict, books: LogBooks): InspectReport {
  const segments: SegmentReport[] = [];
  for (const scan of [...verdict.kept, ...verdict.empty]) {
    const created = "problem" in scan.header ? 0 : scan.header.createdAtMs;
    segments.push({
      file: segmentName(scan.number),
      role: verdict.empty.includes(scan) ? "ahead" : scan.end === "sealed" ? "left" : "current",
      fileBytes: scan.fileBytes,
      usedBytes: scan.at,
      liveBytes: books.table.get(scan.number)?.liveBytes ?? 0,
      records: scan.records,
      createdAtMs: created,
    });
  }
  const tubes = tubesOf(disk, verdict, books);
  const last = verdict.kept.flatMap(({ batches }) => batches).at(-1)?.header;
  return {
    path: disk.path,
    segments,
    fileBytes: segments.reduce((sum, segment) => sum + segment.fileBytes, 0),
    liveBytes: books.table.liveBytes,
    jobs: books.index.jobs,
    remembered: books.index.remembered,
    schedules: books.index.schedules,
    nextId: books.index.maxId + 1,
    tubes,
    settings: [...settingsOf(books)].map(([pattern, text]) => ({ pattern, text })),
    ...(last === undefined ? {} : { group: { epoch: last.epoch, n: last.n } }),
    problems: verdict.problems.map(({ error }) => ({
      code: error.code,
      message: error.message,
      nextStep: error.nextStep,
    })),
  };
}

function tubesOf(disk: Disk, verdict: LogVerdict, books: LogBooks): TubeReport[] {
  const tubes = new Map<string, TubeReport>();
  const batches = recoveredJobs({ disk, scans: verdict.kept, index: books.index }, 1, () => 0);
  for (const { fields, tube: name, body } of wholeJobs(batches)) {
    const { createdAtMs, state } = fields;
    const key = Buffer.from(name).toString("latin1");
    let tube = tubes.get(key);
    if (tube === undefined) {
      tube = {
        tube: key,
        ready: 0,
        delayed: 0,
        buried: 0,
        remembered: 0,
        schedules: 0,
        bodyBytes: 0,
        oldestCreatedAtMs: 0,
      };
      tubes.set(key, tube);
    }
    if (state === RecordState.schedule) {
      tube.schedules++;
      continue;
    }
    if (state === RecordState.remembered) {
      tube.remembered++;
      continue;
    }
    if (tube.ready + tube.delayed + tube.buried === 0) tube.oldestCreatedAtMs = createdAtMs;
    if (state === RecordState.ready) tube.ready++;
    else if (state === RecordState.delayed) tube.delayed++;
    else tube.buried++;
    tube.bodyBytes += body.length;
    tube.oldestCreatedAtMs = Math.min(tube.oldestCreatedAtMs, createdAtMs);
  }
  return [...tubes.values()].sort((a, b) => (a.tube < b.tube ? -1 : 1));
}

export function inspectText(report: InspectReport): string {
  const time = (ms: number) => (ms === 0 ? "-" : new Date(ms).toISOString().slice(0, 19));
  const segments = report.segments.map((s) => [
    s.file,
    s.role,
    String(s.fileBytes),
    String(s.usedBytes),
    String(s.liveBytes),
    String(s.records),
    time(s.createdAtMs),
  ]);
  const tubes = report.tubes.map((t) => [
    t.tube,
    String(t.ready),
    String(t.delayed),
    String(t.buried),
    String(t.bodyBytes),
    time(t.oldestCreatedAtMs),
  ]);
  const share = report.fileBytes === 0 ? 0 : Math.round((100 * report.liveBytes) / report.fileBytes);
  return [
    table([["segment", "", "bytes", "used", "live", "records", "created"], ...segments]),
    table([["tube", "ready", "delayed", "buried", "body bytes", "oldest job"], ...tubes]),
    ...report.settings.map(({ pattern, text }) => `set-tube ${pattern} ${text}`),
    ...(report.remembered === 0 ? [] : [`${report.remembered} unique keys of jobs that no longer exist`]),
    ...(report.schedules === 0 ? [] : [`${report.schedules} schedules`]),
    `${report.jobs} jobs, next id ${report.nextId}; ${report.fileBytes} bytes on disk, ${share} % of them live`,
    ...(report.group === undefined
      ? []
      : [`of a group: epoch ${report.group.epoch}, batch ${report.group.n}`]),
    ...report.problems.map((problem) => `${problem.code}: ${problem.message}\n  ${problem.nextStep}`),
    "",
  ].join("\n");
}

function table(rows: string[][]): string {
  assert(rows.length > 0, "a table has a head");
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const numeric = widths.map((_, column) => rows.slice(1).every((row) => /^[\d-]*$/.test(row[column]!)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) =>
        numeric[column] ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join("  ")
      .trimEnd(),
  );
  return `${lines.join("\n")}\n`;
}
