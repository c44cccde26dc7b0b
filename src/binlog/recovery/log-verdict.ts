// Judges the scans of all segments together: is the log complete, is its tail torn, or is something
// damaged? docs/architecture/log-damage.md explains each rule. Changes nothing.

import { assert } from "../../base/assert.ts";
import { segmentName } from "../../base/text.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import { HEADER_BYTES } from "../segments/segment-format.ts";
import { judgeClaim, type SegmentScan } from "./segment-scan.ts";

export interface LogProblem {
  segment: number;
  offset: number;
  error: BinlogError;
}

export interface LogVerdict {
  /** The segments that count and hold records, oldest first. */
  kept: SegmentScan[];
  /** Segments created ahead: undamaged, without records, in order. */
  empty: SegmentScan[];
  /**
   * Segments below the oldest that counts: their removal was not durable, or the group has not
   * acknowledged it.
   */
  stale: SegmentScan[];
  /** Numbers of segments whose creation was not finished, or whose unused space is damaged. */
  discard: number[];
  /** The last segment with records if it was not sealed; it has to be ended at its `at`. */
  tail: SegmentScan | undefined;
  /** Bytes that the tail loses. */
  cutBytes: number;
  lastSequence: number;
  oldest: number;
  /** The highest id that clients may have seen. */
  maxId: number;
  problems: LogProblem[];
}

export function judgeLog(scans: readonly SegmentScan[], path: string): LogVerdict {
  const verdict: LogVerdict = {
    kept: [],
    empty: [],
    stale: [],
    discard: [],
    tail: undefined,
    cutBytes: 0,
    lastSequence: 0,
    oldest: 1,
    maxId: 0,
    problems: [],
  };
  for (const scan of scans) refuseUnknownVersion(scan, path);
  // The last statement counts: a clean end returns unused lent ids.
  let idsLent = 0;
  for (const scan of scans) {
    verdict.oldest = Math.max(verdict.oldest, scan.oldest);
    verdict.maxId = Math.max(verdict.maxId, scan.maxId);
    if (scan.idsLent >= 0) idsLent = scan.idsLent;
  }
  verdict.maxId = Math.max(verdict.maxId, idsLent);
  const counting = scans.filter((scan) => scan.number >= verdict.oldest);
  verdict.stale = scans.filter((scan) => scan.number < verdict.oldest);
  const first = counting[0]?.number ?? (scans.length === 0 ? verdict.oldest : verdict.oldest + 1);
  // Only a restore begins with number 2; its last record states that number 1 does not count.
  const mayBeRestore = verdict.oldest === 1 && first === 2;
  if (mayBeRestore) addMissing(verdict, 1, path, `${RESTORE_AGAIN} ${BRING_BACK}`);
  judgeNumbers(verdict, counting, path);
  new SegmentJudge(verdict, counting, path).judge();
  if (mayBeRestore) return verdict;
  // Report damage first: a record after it may state that the missing segments no longer count.
  for (let number = verdict.oldest; number < first; number++) addMissing(verdict, number, path);
  return verdict;
}

function refuseUnknownVersion(scan: SegmentScan, path: string): void {
  if (!("problem" in scan.header) || scan.header.problem !== "version") return;
  throw new BinlogError(
    "BINLOG_VERSION",
    `${path}/${segmentName(scan.number)} has format version ${scan.header.version}, which this runnerbean does not know`,
    "Start it with the version of runnerbean that wrote it, or with a newer one. Nothing was changed.",
  );
}

/** Checks that every number from the first to the last exists. */
function judgeNumbers(verdict: LogVerdict, counting: readonly SegmentScan[], path: string): void {
  let expected = counting[0]?.number ?? 0;
  for (const scan of counting) {
    assert(scan.number >= expected, "segments are judged in the order of their numbers");
    for (; expected < scan.number; expected++) addMissing(verdict, expected, path);
    expected = scan.number + 1;
  }
}

const RESTORE_AGAIN = "If a restore was interrupted, empty the directory and restore again. Otherwise:";
const BRING_BACK = "Restore the file, or start once with --salvage to continue without its jobs.";

function addMissing(verdict: LogVerdict, number: number, path: string, nextStep = BRING_BACK): void {
  assert(number > 0, "a missing segment has a number");
  const message = `${path}/${segmentName(number)} is missing, but the log needs it`;
  const error = new BinlogError("BINLOG_MISSING_FILE", message, nextStep);
  verdict.problems.push({ segment: number, offset: 0, error });
}

/** Returns whether a segment has records, even if only beyond damage. */
function hasRecords(scan: SegmentScan): boolean {
  return scan.lastSequence > 0 || scan.beyond > 0;
}

/** Judges the segments in order, each by its neighbours. */
class SegmentJudge {
  readonly #verdict: LogVerdict;
  readonly #counting: readonly SegmentScan[];
  readonly #path: string;
  /** The newest sequence that any undamaged record states to be durable. */
  #synced = 0;
  /** The sequence that must follow; 0 for any. */
  #expected: number;
  /** Whether the previous segment was sealed, so that records may follow. */
  #sealed = true;
  /** Whether the previous segment states that the next one existed. */
  #promised = true;
  /** Whether an earlier segment was never used. */
  #unused = false;

  constructor(verdict: LogVerdict, counting: readonly SegmentScan[], path: string) {
    this.#verdict = verdict;
    this.#counting = counting;
    this.#path = path;
    for (const scan of counting) this.#synced = Math.max(this.#synced, scan.synced);
    this.#expected = counting[0]?.number === 1 ? 1 : 0;
  }

  judge(): void {
    const counting = this.#counting;
    const lastWithRecords = counting.findLastIndex(hasRecords);
    for (const [i, scan] of counting.entries()) {
      const holds = i <= lastWithRecords;
      const last = i === counting.length - 1;
      if (this.#neverUsed(scan, holds, last)) {
        this.#verdict.discard.push(scan.number);
        this.#unused = true;
      } else if (!headerIsWhole(scan)) {
        this.#addDamage(scan, 0, scan.reason || "its header belongs to another segment");
        if (scan.beyond > 0) this.#verdict.kept.push(scan);
        this.#sealed = this.#promised = false;
      } else if (!holds && scan.end === "zeros") {
        this.#verdict.empty.push(scan);
        this.#sealed = this.#promised = false;
      } else {
        this.#expected = this.#judgeRecords(scan, i < lastWithRecords);
        this.#sealed = scan.end === "sealed";
        this.#promised = scan.promisesNext;
      }
    }
    const last = counting.at(-1);
    if (last?.promisesNext === true) addMissing(this.#verdict, last.number + 1, this.#path);
    assert(this.#verdict.cutBytes >= 0, "the number of lost bytes is never negative");
    this.#verdict.lastSequence = Math.max(0, this.#expected - 1);
  }

  /**
   * Returns whether the segment's creation was not finished (a first segment is written only once
   * there is a second), or it was never used. Its content then doesn't matter. `holds`: it or a
   * later one has records.
   */
  #neverUsed(scan: SegmentScan, holds: boolean, last: boolean): boolean {
    if (holds) return false;
    if (headerIsWhole(scan)) return this.#unused || (!this.#sealed && scan.end !== "zeros");
    return !this.#sealed || (last && (!this.#promised || scan.number === 1));
  }

  /**
   * Judges a segment that should hold records; `behind` says whether later ones do. Returns the
   * sequence that must follow.
   */
  #judgeRecords(scan: SegmentScan, behind: boolean): number {
    const verdict = this.#verdict;
    const expected = this.#expected;
    verdict.kept.push(scan);
    const whole = scan.lastSequence;
    if (expected !== 0 && whole !== 0 && scan.firstSequence !== expected) {
      const reason = `it begins with record ${scan.firstSequence} instead of ${expected}`;
      this.#addDamage(scan, HEADER_BYTES, reason);
    }
    if (scan.end === "sealed") return whole + 1;
    const next = whole > 0 ? whole + 1 : Math.max(1, expected);
    if (scan.end === "bad" && whole === 0) judgeClaim(scan, next);
    if (scan.end === "short") this.#addDamage(scan, scan.at, scan.reason);
    else if (behind) this.#addDamage(scan, scan.at, `${scan.reason}, and later segments hold records`);
    else if (scan.end === "bad" && this.#synced >= next) {
      this.#addDamage(scan, scan.at, `${scan.reason}, and record ${this.#synced} was durable already`);
    } else {
      assert(scan.at >= HEADER_BYTES, "a tail ends after its header");
      verdict.tail = scan;
      verdict.cutBytes = scan.end === "bad" ? scan.lastNonZero + 1 - scan.at : 0;
    }
    return next;
  }

  #addDamage(scan: SegmentScan, offset: number, reason: string): void {
    assert(offset >= 0 && offset <= scan.fileBytes, "damage lies in its file");
    const path = this.#path;
    const beyond = scan.beyond > 0 ? ` (${scan.beyond} intact records follow)` : "";
    const error = new BinlogError(
      "BINLOG_CORRUPT",
      `${path}/${segmentName(scan.number)} is damaged at offset ${offset}: ${reason}${beyond}`,
      `Check it with "runnerbean binlog verify ${path}"; copy the directory, then start once with --salvage to keep everything intact.`,
    );
    this.#verdict.problems.push({ segment: scan.number, offset, error });
  }
}

/** Returns whether the segment's header is reliable and its own. */
function headerIsWhole({ header, number }: SegmentScan): boolean {
  return !("problem" in header) && header.number === number;
}
