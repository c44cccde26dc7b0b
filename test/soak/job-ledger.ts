// Ledger of the soak: every operation sent, its reply, and what can therefore be true of each job.
//
// It is pure: times are arguments (ms of one clock; `sentMs` is read before a command is sent,
// `nowMs` after its reply is read). An operation is recorded when it is sent; from then on both
// outcomes are possible. Its reply settles it, a lost connection settles nothing. A contradiction
// throws a Violation.

import { type Hold, JobEntry, Kicks, overlap, type Rest } from "./job-entry.ts";
import { type BodySpec, keyOf, makeBody } from "./soak-body.ts";
import { Violation } from "./violation.ts";

/** A put that was sent. */
export interface OpenPut {
  readonly body: BodySpec;
  readonly client: string;
  readonly sentMs: number;
  readonly rest: Rest;
  /** Known from the first sight of the job. */
  job: JobEntry | undefined;
}

/** A change by the holder that was sent: release, bury. */
export interface OpenChange {
  readonly job: JobEntry;
  readonly hold: Hold;
  /** Until when the hold was certain before the change was sent, ms. */
  readonly heldUntilMs: number;
  readonly number: number;
  readonly rest: Rest;
}

/** A delete that was sent, by the holder or another client. */
export interface OpenDelete {
  readonly job: JobEntry;
  readonly client: string;
  readonly sentMs: number;
  /** Until when a hold of this client was certain; -Infinity without one. */
  readonly heldUntilMs: number;
  readonly hold: Hold | undefined;
}

/** What a server says of a job when nothing else is going on. */
export interface FoundJob {
  readonly body: Buffer;
  readonly tube: string;
  readonly state: string;
  readonly pri: number;
}

/** Two readings of one clock through two roundings. */
const EARLY_MS = 2;
/** How long a timer may be overdue on a busy machine before a job counts as stuck. */
const LATE_MS = 3000;
/**
 * What a segment of the log needs for a job besides tube and body: frame and fixed fields; and for
 * each further piece.
 */
const RECORD_BYTES = 24 + 72;
const PIECE_BYTES = 24 + 16;
const PIECE_BODY_BYTES = 128 * 1024 - 16;
const HISTORY_MAX = 40;

export class JobLedger {
  readonly jobs: Map<number, JobEntry> = new Map();
  /**
   * Acknowledged deletes of times before the last settlement: those jobs have no history any more.
   */
  readonly #goneIds = new Set<number>();
  readonly #openPuts = new Map<number, OpenPut>();
  readonly #tubeKicks = new Map<string, Kicks>();
  #nextKey = 1;
  #highestId = 0;
  #serverEnds = false;
  #liveJobs = 0;
  #liveBytes = 0;
  /** Server's wall clock minus ours, ms: the lowest and the highest since the server's start. */
  #wallOffsetMinMs = 0;
  #wallOffsetMaxMs = 0;
  /** Every id up to that has been asked for. */
  settledUpTo = 0;
  /** Jobs compared with the server's, over all settlements. */
  checked = 0;

  /** Jobs that are acknowledged or seen, and not deleted. */
  get liveJobs(): number {
    return this.#liveJobs;
  }

  /** What the log of the server needs for them at least, in bytes. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  get highestId(): number {
    return this.#highestId;
  }

  // --- put ---------------------------------------------------------------------------------------

  /** A key that no other body has. */
  newBody(tube: string, bytes: number, ttrSeconds: number): BodySpec {
    return { key: this.#nextKey++, bytes, tube, ttrSeconds };
  }

  putSent(client: string, body: BodySpec, pri: number, delaySeconds: number, sentMs: number): OpenPut {
    const put: OpenPut = {
      body,
      client,
      sentMs,
      rest: this.#rest(pri, delaySeconds, sentMs),
      job: undefined,
    };
    this.#openPuts.set(body.key, put);
    return put;
  }

  putInserted(put: OpenPut, id: number, nowMs: number): void {
    const job = put.job ?? this.#newJob(id, put);
    if (job.id !== id)
      this.#fail(job, `the put was answered INSERTED ${id}, but the job was seen as ${job.id}`);
    job.acknowledgedMs = nowMs;
    // The state at the put; earlier sights of the job have added to it.
    this.#bound(put.rest, nowMs - put.sentMs);
    this.#openPuts.delete(put.body.key);
    this.#note(job, nowMs, `put by ${put.client}, acknowledged`);
  }

  /** The server said that it did not take the job. */
  putRefused(put: OpenPut, nowMs: number): void {
    this.#openPuts.delete(put.body.key);
    if (put.job !== undefined) this.#fail(put.job, `its put was refused at ${time(nowMs)}, and it is there`);
  }

  #newJob(id: number, put: OpenPut): JobEntry {
    const other = this.jobs.get(id);
    if (other !== undefined) this.#fail(other, `its id was given again, to body k${put.body.key}`);
    if (this.#goneIds.has(id))
      throw new Violation(`job ${id}: its id was given again, to body k${put.body.key}`);
    const job = new JobEntry(id, put.body, put.rest);
    put.job = job;
    this.jobs.set(id, job);
    this.#highestId = Math.max(this.#highestId, id);
    this.#count(job, 1);
    this.#note(
      job,
      put.sentMs,
      `put sent by ${put.client}: ${put.body.bytes} bytes, tube ${put.body.tube}, ${describe(put.rest)}, ttr ${put.body.ttrSeconds}`,
    );
    return job;
  }

  // --- reserve and peek --------------------------------------------------------------------------

  /**
   * RESERVED was read. `endMs` is when the client gave up its connection's write side, if it has;
   * `byId`: by reserve-job, which also takes buried and delayed jobs.
   */
  reserved(
    client: string,
    id: number,
    body: Buffer,
    sentMs: number,
    nowMs: number,
    options: { byId?: boolean; endMs?: number } = {},
  ): { job: JobEntry; hold: Hold } {
    const job = this.#seen(id, body, sentMs, nowMs);
    const ttrEndMs = this.#certainUntil(job, sentMs);
    const hold: Hold = { client, seenMs: nowMs, endMs: Math.min(ttrEndMs, options.endMs ?? ttrEndMs) };
    // A reply that is read late may be of a reservation that was over before the job came to where
    // it is now.
    const mayPrecede = (rest: Rest): boolean => hold.endMs <= rest.sinceMs;
    if (options.byId) {
      job.rests = job.rests.map((rest) =>
        rest.kind === "buried" && !mayPrecede(rest) ? { ...rest, kind: "ready", sinceMs: sentMs } : rest,
      );
    } else if (!job.rests.some((rest) => mayPrecede(rest) || this.#mayBeReady(job, rest, nowMs))) {
      this.#fail(
        job,
        `${client} got it at ${time(nowMs)} by a reserve sent at ${time(sentMs)}, but it ${job.rests.map(describe).join(" or ")}`,
      );
    }
    this.#addHold(job, hold, nowMs);
    // Its TTR or its connection may bring it back at any time.
    for (const rest of job.rests) job.mayRest({ ...rest, kind: "ready", sinceMs: sentMs });
    this.#note(job, nowMs, `reserved by ${client}, asked at ${time(sentMs)}`);
    return { job, hold };
  }

  /** FOUND was read. */
  found(client: string, id: number, body: Buffer, sentMs: number, nowMs: number): JobEntry {
    const job = this.#seen(id, body, sentMs, nowMs);
    if (job.deletedMs < sentMs) this.#fail(job, `${client} found it by peek, asked at ${time(sentMs)}`);
    return job;
  }

  /** NOT_FOUND was read for a peek or stats-job of any job. */
  notFound(client: string, id: number, sentMs: number): void {
    const job = this.jobs.get(id);
    if (job === undefined || job.acknowledgedMs > sentMs || job.isDeleted || job.deletesOpen > 0) return;
    this.#fail(job, `${client} asked for it at ${time(sentMs)} and it is lost`);
  }

  #seen(id: number, body: Buffer, sentMs: number, nowMs: number): JobEntry {
    if (this.#goneIds.has(id))
      throw new Violation(`job ${id} was deleted long ago, and is back at ${time(nowMs)}`);
    const job = this.jobs.get(id) ?? this.#bind(id, body, sentMs);
    if (!body.equals(makeBody(job.body.key, job.body.bytes))) {
      this.#fail(job, `seen at ${time(nowMs)} with other bytes: ${body.length} of them, ${preview(body)}`);
    }
    return job;
  }

  /** A job that is seen before its put is answered, or whose put was never answered. */
  #bind(id: number, body: Buffer, sentMs: number): JobEntry {
    const key = keyOf(body);
    const put = key === undefined ? undefined : this.#openPuts.get(key);
    if (put === undefined) {
      throw new Violation(
        `job ${id}, asked for at ${time(sentMs)}: nobody put it, or its put was refused: ${preview(body)}`,
      );
    }
    if (put.job !== undefined) this.#fail(put.job, `it is there twice, also as ${id}`);
    return this.#newJob(id, put);
  }

  // --- what a holder does ------------------------------------------------------------------------

  /** `rest.kind` is where the change leads. */
  changeSent(
    job: JobEntry,
    hold: Hold,
    kind: "ready" | "buried",
    pri: number,
    delaySeconds: number,
    sentMs: number,
  ): OpenChange {
    const rest =
      kind === "buried" ? { ...this.#rest(pri, 0, sentMs), kind } : this.#rest(pri, delaySeconds, sentMs);
    const heldUntilMs = hold.endMs;
    hold.endMs = Math.min(hold.endMs, sentMs);
    job.mayRest(rest);
    this.#note(job, sentMs, `${hold.client} sends: it ${describe(rest)}`);
    return { job, hold, heldUntilMs, number: ++job.changes, rest };
  }

  changeDone(change: OpenChange, nowMs: number): void {
    const { job, rest } = change;
    this.#bound(rest, nowMs - rest.sinceMs);
    this.#notGone(job, `it ${describe(rest)}`, rest.sinceMs);
    // A later change of the next holder may have been answered before this one.
    if (change.number === job.changes) {
      job.rests = [rest];
      for (const hold of job.holds)
        if (hold !== change.hold && hold.endMs > nowMs) job.mayRest({ ...rest, kind: "ready" });
    }
    this.#note(job, nowMs, `acknowledged to ${change.hold.client}: ${describe(rest)}`);
  }

  /** NOT_FOUND: right only if the hold may have ended before. */
  changeRefused(change: OpenChange, nowMs: number): void {
    this.#note(change.job, nowMs, `NOT_FOUND to ${change.hold.client}`);
    this.#mayBeOver(change.job, change.hold, change.heldUntilMs, nowMs);
    // It stays among the possible states: harmless, and the next settlement sets it right.
  }

  touched(job: JobEntry, hold: Hold, sentMs: number, nowMs: number): void {
    this.#notGone(job, "TOUCHED", sentMs);
    hold.seenMs = nowMs;
    hold.endMs = this.#certainUntil(job, sentMs);
    this.#addHold(job, hold, nowMs);
    this.#note(job, nowMs, `touched by ${hold.client}, sent at ${time(sentMs)}`);
  }

  touchRefused(job: JobEntry, hold: Hold, nowMs: number): void {
    this.#mayBeOver(job, hold, hold.endMs, nowMs);
  }

  /** Until when a job is held that was reserved or touched by a command sent at `sentMs`. */
  #certainUntil(job: JobEntry, sentMs: number): number {
    return this.#serverEnds ? sentMs : sentMs + job.body.ttrSeconds * 1000;
  }

  #mayBeOver(job: JobEntry, hold: Hold, heldUntilMs: number, nowMs: number): void {
    if (heldUntilMs > nowMs)
      this.#fail(
        job,
        `${hold.client} held it until ${time(heldUntilMs)} at least and was told NOT_FOUND at ${time(nowMs)}`,
      );
  }

  #notGone(job: JobEntry, what: string, sentMs: number): void {
    if (job.deletedMs < sentMs) this.#fail(job, `it was deleted, then acknowledged: ${what}`);
  }

  #addHold(job: JobEntry, hold: Hold, nowMs: number): void {
    // A hold that may have ended by now can't overlap a later one.
    job.holds = job.holds.filter((other) => other !== hold && other.endMs > nowMs);
    const other = job.holds.find((one) => overlap(one, hold));
    if (other !== undefined) {
      const until = job.isDeleted
        ? `${other.client} deleted it`
        : `${other.client} holds it until ${time(other.endMs)} at least`;
      this.#fail(job, `${until}, and ${hold.client} was given it, seen at ${time(nowMs)}`);
    }
    job.holds.push(hold);
  }

  // --- delete and kick ---------------------------------------------------------------------------

  deleteSent(client: string, job: JobEntry, hold: Hold | undefined, sentMs: number): OpenDelete {
    job.deletesOpen++;
    const heldUntilMs = hold?.endMs ?? Number.NEGATIVE_INFINITY;
    if (hold !== undefined) hold.endMs = Math.min(hold.endMs, sentMs);
    this.#note(job, sentMs, `delete sent by ${client}`);
    return { job, client, sentMs, heldUntilMs, hold };
  }

  /** From here on it is as if the client held the job for ever. */
  deleted(open: OpenDelete, nowMs: number): void {
    const { job, client, hold } = open;
    job.deletesOpen--;
    if (hold !== undefined) job.holds = job.holds.filter((other) => other !== hold);
    this.#addHold(job, { client, seenMs: nowMs, endMs: Number.POSITIVE_INFINITY }, nowMs);
    job.deletedMs = nowMs;
    this.#count(job, -1);
    this.#note(job, nowMs, `deleted by ${client}, acknowledged`);
  }

  deleteRefused(open: OpenDelete, nowMs: number): void {
    open.job.deletesOpen--;
    this.#note(open.job, nowMs, `NOT_FOUND to the delete of ${open.client}`);
    if (open.hold !== undefined) this.#mayBeOver(open.job, open.hold, open.heldUntilMs, nowMs);
  }

  /** A kick of a tube was sent. Call the result when it is answered. */
  kickSent(tube: string): (nowMs: number) => void {
    const kicks = this.#kicksOf(tube);
    kicks.begin();
    return (nowMs) => kicks.end(nowMs);
  }

  kickJobSent(job: JobEntry): (nowMs: number) => void {
    job.kicks.begin();
    return (nowMs) => job.kicks.end(nowMs);
  }

  #kicksOf(tube: string): Kicks {
    let kicks = this.#tubeKicks.get(tube);
    if (kicks === undefined) this.#tubeKicks.set(tube, (kicks = new Kicks()));
    return kicks;
  }

  #mayBeReady(job: JobEntry, rest: Rest, nowMs: number): boolean {
    if (rest.kind === "ready") return true;
    if (this.#mayBeKicked(job, rest)) return true;
    return rest.kind === "delayed" && rest.earliestMs <= nowMs + EARLY_MS;
  }

  #mayBeKicked(job: JobEntry, rest: Rest): boolean {
    return job.kicks.mayHaveChanged(rest) || this.#kicksOf(job.body.tube).mayHaveChanged(rest);
  }

  // --- connections, clock, server ----------------------------------------------------------------

  /**
   * The client ended its connection, or its write side, just now: the server may take its jobs
   * back.
   */
  clientLeft(holds: Iterable<Hold>, nowMs: number): void {
    for (const hold of holds) hold.endMs = Math.min(hold.endMs, nowMs);
  }

  /** The server's wall clock was set while it runs. */
  clockStepped(wallOffsetMs: number): void {
    this.#wallOffsetMinMs = Math.min(this.#wallOffsetMinMs, wallOffsetMs);
    this.#wallOffsetMaxMs = Math.max(this.#wallOffsetMaxMs, wallOffsetMs);
  }

  /**
   * The server ends from `nowMs` on, at once or in order: reserved jobs may be released at any
   * moment.
   */
  serverEnds(nowMs: number): void {
    this.#serverEnds = true;
    for (const job of this.jobs.values()) {
      for (const hold of job.holds) if (!job.isDeleted) hold.endMs = Math.min(hold.endMs, nowMs);
    }
  }

  /**
   * A server starts over the same log, its wall clock ahead of ours by `wallOffsetMs`: delays end
   * by the wall clock.
   */
  serverStarts(wallOffsetMs: number): void {
    this.#serverEnds = false;
    const delaysFrom = (rest: Rest): void => {
      rest.earliestMs = rest.wallEarliestMs - wallOffsetMs;
      rest.latestMs = rest.wallLatestMs - wallOffsetMs;
    };
    for (const job of this.jobs.values()) job.rests.forEach(delaysFrom);
    // A put that was not answered before the server ended may have made a job all the same.
    for (const put of this.#openPuts.values()) if (put.job === undefined) delaysFrom(put.rest);
    this.#wallOffsetMinMs = wallOffsetMs;
    this.#wallOffsetMaxMs = wallOffsetMs;
  }

  // --- settlement --------------------------------------------------------------------------------

  /**
   * Ids to ask the server for when no client is left: all that live, and those deleted since the
   * last settlement.
   */
  idsToSettle(): number[] {
    return [...this.jobs.keys()];
  }

  /**
   * The server has this job, asked from `sentMs` to `nowMs`, while no other client was connected.
   */
  settleFound(id: number, seen: FoundJob, sentMs: number, nowMs: number): void {
    this.checked++;
    const job = this.#seen(id, seen.body, sentMs, nowMs);
    if (job.isDeleted) this.#fail(job, `deleted, and found again in state ${seen.state}`);
    if (seen.tube !== job.body.tube)
      this.#fail(job, `found in tube ${seen.tube} instead of ${job.body.tube}`);
    const fitting = job.rests.filter((rest) => this.#fits(job, rest, seen, sentMs, nowMs));
    if (fitting.length === 0) {
      this.#fail(
        job,
        `found ${seen.state} with pri ${seen.pri} at ${time(nowMs)}, but it ${job.rests.map(describe).join(" or ")}`,
      );
    }
    job.rests = fitting.map((rest) => ({ ...rest, sinceMs: sentMs }));
    if (seen.state === "ready") {
      // No record says that a delay is over: if the wall clock goes back, the next server finds the
      // job delayed again.
      job.rests = job.rests.filter((rest) => rest.kind === "delayed");
      job.mayRest({ ...fitting[0]!, kind: "ready", sinceMs: sentMs });
    }
    job.deletesOpen = 0;
    job.kicks.settle(nowMs);
    job.holds = [];
    job.acknowledgedMs = Math.min(job.acknowledgedMs, nowMs);
    this.#note(job, nowMs, `found ${seen.state}, pri ${seen.pri}`);
  }

  /** The server has no such job. */
  settleAbsent(id: number, nowMs: number): void {
    this.checked++;
    const job = this.jobs.get(id);
    if (job === undefined) return;
    if (!job.isDeleted && job.deletesOpen === 0 && job.acknowledgedMs < Number.POSITIVE_INFINITY) {
      this.#fail(job, `acknowledged, not deleted, and lost: not there at ${time(nowMs)}`);
    }
    if (!job.isDeleted) this.#count(job, -1);
    this.jobs.delete(id);
    this.#goneIds.add(id);
  }

  /**
   * All ids below `newestId` were checked: unseen puts did not happen, and must not from now on.
   */
  settled(newestId: number, nowMs: number): void {
    this.settledUpTo = newestId;
    this.#openPuts.clear();
    for (const kicks of this.#tubeKicks.values()) kicks.settle(nowMs);
  }

  #fits(job: JobEntry, rest: Rest, seen: FoundJob, sentMs: number, nowMs: number): boolean {
    if (seen.pri !== rest.pri) return false;
    if (seen.state === "ready") return this.#mayBeReady(job, rest, nowMs);
    if (seen.state !== rest.kind) return false;
    return rest.kind === "buried" || rest.latestMs + LATE_MS >= sentMs;
  }

  /** Live jobs by tube. */
  liveTubes(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const job of this.jobs.values()) {
      if (!job.isDeleted) counts.set(job.body.tube, (counts.get(job.body.tube) ?? 0) + 1);
    }
    return counts;
  }

  // --- the rest ----------------------------------------------------------------------------------

  #rest(pri: number, delaySeconds: number, sentMs: number): Rest {
    const earliestMs = sentMs + delaySeconds * 1000;
    return {
      kind: delaySeconds > 0 ? "delayed" : "ready",
      pri,
      sinceMs: sentMs,
      earliestMs,
      latestMs: Number.POSITIVE_INFINITY,
      wallEarliestMs: earliestMs + this.#wallOffsetMinMs,
      wallLatestMs: Number.POSITIVE_INFINITY,
    };
  }

  /** Its command was answered `spanMs` after it was sent: the delay began within that. */
  #bound(rest: Rest, spanMs: number): void {
    rest.latestMs = rest.earliestMs + spanMs;
    rest.wallLatestMs = rest.latestMs + this.#wallOffsetMaxMs;
  }

  #count(job: JobEntry, sign: 1 | -1): void {
    const { bytes, tube } = job.body;
    const pieces = Math.floor(bytes / PIECE_BODY_BYTES);
    this.#liveJobs += sign;
    this.#liveBytes += sign * (RECORD_BYTES + tube.length + bytes + pieces * PIECE_BYTES);
  }

  #note(job: JobEntry, atMs: number, what: string): void {
    if (job.history.length === HISTORY_MAX) job.history.splice(1, 1);
    job.history.push(`${time(atMs)} ${what}`);
  }

  #fail(job: JobEntry, what: string): never {
    throw new Violation(`job ${job.id} (body k${job.body.key}, tube ${job.body.tube}): ${what}`, [
      ...job.history,
    ]);
  }
}

const time = (ms: number): string => `${(ms / 1000).toFixed(4)} s`;
const preview = (body: Buffer): string => JSON.stringify(body.toString("latin1", 0, 40));

function describe(rest: Rest): string {
  const until = rest.kind === "delayed" ? ` until ${time(rest.earliestMs)} to ${time(rest.latestMs)}` : "";
  return `is ${rest.kind}${until} with pri ${rest.pri}`;
}
