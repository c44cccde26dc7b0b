// Entries of the ledger: jobs, open puts, holds and kicks, and the clocks of both sides.

import { type Hold, JobEntry, Kicks, overlap, type Rest } from "./job-entry.ts";
import { LedgerClock } from "./ledger-clock.ts";
import { type BodySpec, keyOf, makeBody } from "./soak-body.ts";
import { Violation } from "./violation.ts";

/** A put that was sent. */
export interface OpenPut {
  readonly body: BodySpec;
  readonly client: string;
  readonly sentMs: number;
  /** As in JobEntry. */
  putMs: number;
  /** Several if a server may have set the delay's end in several ways. */
  rests: Rest[];
  /** Known from the first sight of the job. */
  job: JobEntry | undefined;
}

/**
 * Bytes of a segment for a job besides tube and body: frame and fixed fields; and for each further
 * piece.
 */
const RECORD_BYTES = 24 + 72;

const PIECE_BYTES = 24 + 16;

const PIECE_BODY_BYTES = 128 * 1024 - 16;

const HISTORY_MAX = 40;

/** Two readings of one clock through two roundings. */
const EARLY_MS = 2;

export class LedgerBook {
  readonly jobs: Map<number, JobEntry> = new Map();
  /**
   * Acknowledged deletes of times before the last settlement: those jobs have no history any more.
   */
  readonly goneIds = new Set<number>();
  readonly openPuts = new Map<number, OpenPut>();
  readonly tubeKicks = new Map<string, Kicks>();
  #highestId = 0;
  isEnding = false;
  #liveJobs = 0;
  #liveBytes = 0;
  readonly clock = new LedgerClock();
  /** Every id up to that has been asked for. */
  settledUpTo = 0;
  /** Jobs compared with the server's, over all settlements. */
  checked = 0;

  /** Jobs that are acknowledged or seen, and not deleted. */
  get liveJobs(): number {
    return this.#liveJobs;
  }

  /** Bytes that the server's log needs for them at least. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  get highestId(): number {
    return this.#highestId;
  }

  newJob(id: number, put: OpenPut): JobEntry {
    const other = this.jobs.get(id);
    if (other !== undefined) this.fail(other, `its id was given again, to body k${put.body.key}`);
    if (this.goneIds.has(id))
      throw new Violation(`job ${id}: its id was given again, to body k${put.body.key}`);
    const job = new JobEntry(id, put);
    put.job = job;
    this.jobs.set(id, job);
    this.#highestId = Math.max(this.#highestId, id);
    this.count(job, 1);
    this.note(
      job,
      put.sentMs,
      `put sent by ${put.client}: ${put.body.bytes} bytes, tube ${put.body.tube}, ${put.rests.map(describe).join(" or ")}, ttr ${put.body.ttrSeconds}`,
    );
    return job;
  }

  seen(id: number, body: Buffer, sentMs: number, nowMs: number): JobEntry {
    if (this.goneIds.has(id))
      throw new Violation(`job ${id} was deleted long ago, and is back at ${time(nowMs)}`);
    const job = this.jobs.get(id) ?? this.#bind(id, body, sentMs);
    if (!body.equals(makeBody(job.body.key, job.body.bytes))) {
      this.fail(job, `seen at ${time(nowMs)} with other bytes: ${body.length} of them, ${preview(body)}`);
    }
    return job;
  }

  /** A job that is seen before its put is answered, or whose put was never answered. */
  #bind(id: number, body: Buffer, sentMs: number): JobEntry {
    const key = keyOf(body);
    const put = key === undefined ? undefined : this.openPuts.get(key);
    if (put === undefined) {
      throw new Violation(
        `job ${id}, asked for at ${time(sentMs)}: nobody put it, or its put was refused: ${preview(body)}`,
      );
    }
    if (put.job !== undefined) this.fail(put.job, `it exists twice, also as ${id}`);
    return this.newJob(id, put);
  }

  /** Until when a job is held that was reserved or touched by a command sent at `sentMs`. */
  certainUntil(job: JobEntry, sentMs: number): number {
    return this.isEnding ? sentMs : sentMs + job.body.ttrSeconds * 1000;
  }

  mayBeOver(job: JobEntry, hold: Hold, heldUntilMs: number, nowMs: number): void {
    if (heldUntilMs > nowMs)
      this.fail(
        job,
        `${hold.client} held it until ${time(heldUntilMs)} at least and was told NOT_FOUND at ${time(nowMs)}`,
      );
  }

  notGone(job: JobEntry, what: string, sentMs: number): void {
    if (job.deletedMs < sentMs) this.fail(job, `it was deleted, then acknowledged: ${what}`);
  }

  addHold(job: JobEntry, hold: Hold, nowMs: number): void {
    // A hold that may have ended by now can't overlap a later one.
    job.holds = job.holds.filter((other) => other !== hold && other.endMs > nowMs);
    const other = job.holds.find((one) => overlap(one, hold));
    if (other !== undefined) {
      const until = job.isDeleted
        ? `${other.client} deleted it`
        : `${other.client} holds it until ${time(other.endMs)} at least`;
      this.fail(job, `${until}, and ${hold.client} was given it, seen at ${time(nowMs)}`);
    }
    job.holds.push(hold);
  }

  kicksOf(tube: string): Kicks {
    let kicks = this.tubeKicks.get(tube);
    if (kicks === undefined) this.tubeKicks.set(tube, (kicks = new Kicks()));
    return kicks;
  }

  mayBeReady(job: JobEntry, rest: Rest, nowMs: number): boolean {
    if (rest.kind === "ready") return true;
    if (this.#mayBeKicked(job, rest)) return true;
    return rest.kind === "delayed" && rest.earliestMs <= nowMs + EARLY_MS;
  }

  #mayBeKicked(job: JobEntry, rest: Rest): boolean {
    return job.kicks.mayHaveChanged(rest) || this.kicksOf(job.body.tube).mayHaveChanged(rest);
  }

  rest(pri: number, delaySeconds: number, sentMs: number): Rest {
    const earliestMs = sentMs + delaySeconds * 1000;
    return {
      kind: delaySeconds > 0 ? "delayed" : "ready",
      pri,
      sinceMs: sentMs,
      delayMs: delaySeconds * 1000,
      earliestMs,
      latestMs: Number.POSITIVE_INFINITY,
    };
  }

  /** Its command was answered `spanMs` after it was sent: the delay began within that. */
  bound(rest: Rest, spanMs: number): void {
    rest.latestMs = rest.earliestMs + spanMs;
  }

  count(job: JobEntry, sign: 1 | -1): void {
    const { bytes, tube } = job.body;
    const pieces = Math.floor(bytes / PIECE_BODY_BYTES);
    this.#liveJobs += sign;
    this.#liveBytes += sign * (RECORD_BYTES + tube.length + bytes + pieces * PIECE_BYTES);
  }

  note(job: JobEntry, atMs: number, what: string): void {
    if (job.history.length === HISTORY_MAX) job.history.splice(1, 1);
    job.history.push(`${time(atMs)} ${what}`);
  }

  fail(job: JobEntry, what: string): never {
    throw new Violation(`job ${job.id} (body k${job.body.key}, tube ${job.body.tube}): ${what}`, [
      ...job.history,
    ]);
  }
}

export const time = (ms: number): string => `${(ms / 1000).toFixed(4)} s`;

const preview = (body: Buffer): string => JSON.stringify(body.toString("latin1", 0, 40));

export function describe(rest: Rest): string {
  const until = rest.kind === "delayed" ? ` until ${time(rest.earliestMs)} to ${time(rest.latestMs)}` : "";
  return `is ${rest.kind}${until} with pri ${rest.pri}`;
}
