// Ledger of the soak: every operation sent, its reply, and what can therefore be true of each job.
//
// It is pure: times are arguments (ms of one clock; `sentMs` is read before a command is sent,
// `nowMs` after its reply is read). An operation is recorded when it is sent; from then on both
// outcomes are possible. Its reply settles it, a lost connection settles nothing. A contradiction
// throws a Violation.

import type { Hold, JobEntry, Rest } from "./job-entry.ts";
import { describe, LedgerBook, type OpenPut, time } from "./ledger-book.ts";
import { restsAfter } from "./ledger-clock.ts";
import type { BodySpec } from "./soak-body.ts";

/** A change by the holder that was sent: release, bury. */
interface OpenChange {
  readonly job: JobEntry;
  readonly hold: Hold;
  /** Until when the hold was certain before the change was sent, ms. */
  readonly heldUntilMs: number;
  readonly number: number;
  readonly rest: Rest;
}

/** A delete that was sent, by the holder or another client. */
interface OpenDelete {
  readonly job: JobEntry;
  readonly client: string;
  readonly sentMs: number;
  /** Until when a hold of this client was certain; -Infinity without one. */
  readonly heldUntilMs: number;
  readonly hold: Hold | undefined;
}

/** A job as the server shows it while nothing else is going on. */
export interface FoundJob {
  readonly body: Buffer;
  readonly tube: string;
  readonly state: string;
  readonly pri: number;
}

/** Delay of a timer on a busy machine after which a job counts as stuck, ms. */
const LATE_MS = 3000;

export class JobLedger extends LedgerBook {
  #nextKey = 1;

  /** A key that no other body has. */
  newBody(tube: string, bytes: number, ttrSeconds: number): BodySpec {
    return { key: this.#nextKey++, bytes, tube, ttrSeconds };
  }

  putSent(client: string, body: BodySpec, pri: number, delaySeconds: number, sentMs: number): OpenPut {
    const put: OpenPut = {
      body,
      client,
      sentMs,
      putMs: sentMs,
      rests: [this.rest(pri, delaySeconds, sentMs)],
      job: undefined,
    };
    this.openPuts.set(body.key, put);
    return put;
  }

  putInserted(put: OpenPut, id: number, nowMs: number): void {
    const job = put.job ?? this.newJob(id, put);
    if (job.id !== id)
      this.fail(job, `the put was answered INSERTED ${id}, but the job was seen as ${job.id}`);
    job.acknowledgedMs = nowMs;
    // The state at the put; earlier sights of the job have added to it.
    this.bound(put.rests[0]!, nowMs - put.sentMs);
    this.openPuts.delete(put.body.key);
    this.note(job, nowMs, `put by ${put.client}, acknowledged`);
  }

  /** The server said that it did not take the job. */
  putRefused(put: OpenPut, nowMs: number): void {
    this.openPuts.delete(put.body.key);
    if (put.job !== undefined) this.fail(put.job, `its put was refused at ${time(nowMs)}, but it exists`);
  }

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
    const job = this.seen(id, body, sentMs, nowMs);
    const ttrEndMs = this.certainUntil(job, sentMs);
    const hold: Hold = { client, seenMs: nowMs, endMs: Math.min(ttrEndMs, options.endMs ?? ttrEndMs) };
    // A reply that is read late may be of a reservation that was over before the job came to where
    // it is now.
    const mayPrecede = (rest: Rest): boolean => hold.endMs <= rest.sinceMs;
    if (options.byId) {
      job.rests = job.rests.map((rest) =>
        rest.kind === "buried" && !mayPrecede(rest) ? { ...rest, kind: "ready", sinceMs: sentMs } : rest,
      );
    } else if (!job.rests.some((rest) => mayPrecede(rest) || this.mayBeReady(job, rest, nowMs))) {
      this.fail(
        job,
        `${client} got it at ${time(nowMs)} by a reserve sent at ${time(sentMs)}, but it ${job.rests.map(describe).join(" or ")}`,
      );
    }
    this.addHold(job, hold, nowMs);
    // Its TTR or its connection may bring it back at any time.
    for (const rest of job.rests) job.mayRest({ ...rest, kind: "ready", sinceMs: sentMs });
    this.note(job, nowMs, `reserved by ${client}, asked at ${time(sentMs)}`);
    return { job, hold };
  }

  /** FOUND was read. */
  found(client: string, id: number, body: Buffer, sentMs: number, nowMs: number): JobEntry {
    const job = this.seen(id, body, sentMs, nowMs);
    if (job.deletedMs < sentMs) this.fail(job, `${client} found it by peek, asked at ${time(sentMs)}`);
    return job;
  }

  /** NOT_FOUND was read for a peek or stats-job of any job. */
  notFound(client: string, id: number, sentMs: number): void {
    const job = this.jobs.get(id);
    if (job === undefined || job.acknowledgedMs > sentMs || job.isDeleted || job.deletesOpen > 0) return;
    this.fail(job, `${client} asked for it at ${time(sentMs)} and it is lost`);
  }

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
      kind === "buried" ? { ...this.rest(pri, 0, sentMs), kind } : this.rest(pri, delaySeconds, sentMs);
    const heldUntilMs = hold.endMs;
    hold.endMs = Math.min(hold.endMs, sentMs);
    job.mayRest(rest);
    this.note(job, sentMs, `${hold.client} sends: it ${describe(rest)}`);
    return { job, hold, heldUntilMs, number: ++job.changes, rest };
  }

  changeDone(change: OpenChange, nowMs: number): void {
    const { job, rest } = change;
    this.bound(rest, nowMs - rest.sinceMs);
    this.notGone(job, `it ${describe(rest)}`, rest.sinceMs);
    // A later change of the next holder may have been answered before this one.
    if (change.number === job.changes) {
      job.rests = [rest];
      for (const hold of job.holds)
        if (hold !== change.hold && hold.endMs > nowMs) job.mayRest({ ...rest, kind: "ready" });
    }
    this.note(job, nowMs, `acknowledged to ${change.hold.client}: ${describe(rest)}`);
  }

  /** NOT_FOUND: right only if the hold may have ended before. */
  changeRefused(change: OpenChange, nowMs: number): void {
    this.note(change.job, nowMs, `NOT_FOUND to ${change.hold.client}`);
    this.mayBeOver(change.job, change.hold, change.heldUntilMs, nowMs);
    // It stays among the possible states: harmless, and the next settlement sets it right.
  }

  touched(job: JobEntry, hold: Hold, sentMs: number, nowMs: number): void {
    this.notGone(job, "TOUCHED", sentMs);
    hold.seenMs = nowMs;
    hold.endMs = this.certainUntil(job, sentMs);
    this.addHold(job, hold, nowMs);
    this.note(job, nowMs, `touched by ${hold.client}, sent at ${time(sentMs)}`);
  }

  touchRefused(job: JobEntry, hold: Hold, nowMs: number): void {
    this.mayBeOver(job, hold, hold.endMs, nowMs);
  }

  deleteSent(client: string, job: JobEntry, hold: Hold | undefined, sentMs: number): OpenDelete {
    job.deletesOpen++;
    const heldUntilMs = hold?.endMs ?? Number.NEGATIVE_INFINITY;
    if (hold !== undefined) hold.endMs = Math.min(hold.endMs, sentMs);
    this.note(job, sentMs, `delete sent by ${client}`);
    return { job, client, sentMs, heldUntilMs, hold };
  }

  /** From here on it is as if the client held the job for ever. */
  deleted(open: OpenDelete, nowMs: number): void {
    const { job, client, hold } = open;
    job.deletesOpen--;
    if (hold !== undefined) job.holds = job.holds.filter((other) => other !== hold);
    this.addHold(job, { client, seenMs: nowMs, endMs: Number.POSITIVE_INFINITY }, nowMs);
    job.deletedMs = nowMs;
    this.count(job, -1);
    this.note(job, nowMs, `deleted by ${client}, acknowledged`);
  }

  deleteRefused(open: OpenDelete, nowMs: number): void {
    open.job.deletesOpen--;
    this.note(open.job, nowMs, `NOT_FOUND to the delete of ${open.client}`);
    if (open.hold !== undefined) this.mayBeOver(open.job, open.hold, open.heldUntilMs, nowMs);
  }

  /** A kick of a tube was sent. Call the result when it is answered. */
  kickSent(tube: string): (nowMs: number) => void {
    const kicks = this.kicksOf(tube);
    kicks.begin();
    return (nowMs) => kicks.end(nowMs);
  }

  kickJobSent(job: JobEntry): (nowMs: number) => void {
    job.kicks.begin();
    return (nowMs) => job.kicks.end(nowMs);
  }

  /**
   * The client ended its connection, or its write side, just now: the server may take its jobs
   * back.
   */
  clientLeft(holds: Iterable<Hold>, nowMs: number): void {
    for (const hold of holds) hold.endMs = Math.min(hold.endMs, nowMs);
  }

  /**
   * The server ends from `nowMs` on, at once or in order: reserved jobs may be released at any
   * moment.
   */
  serverEnds(nowMs: number): void {
    this.isEnding = true;
    for (const job of this.jobs.values()) {
      for (const hold of job.holds) if (!job.isDeleted) hold.endMs = Math.min(hold.endMs, nowMs);
    }
  }

  /**
   * A server has started between `fromMs` and `toMs` over the same log, its wall clock ahead of
   * ours by `wallOffsetMs`: delays end by the log's clock.
   */
  serverStarted(wallOffsetMs: number, fromMs: number, toMs: number): void {
    this.isEnding = false;
    const startMs = { lowMs: fromMs, highMs: toMs };
    let newestMs = Number.NEGATIVE_INFINITY;
    for (const job of this.jobs.values())
      if (!job.isDeleted && job.deletesOpen === 0 && job.acknowledgedMs < Number.POSITIVE_INFINITY)
        newestMs = Math.max(newestMs, job.putMs);
    const gone = this.clock.started(wallOffsetMs, startMs, newestMs);
    const goneMs = Math.max(...gone.map(({ highMs }) => highMs));
    for (const job of this.jobs.values()) {
      job.putMs -= goneMs;
      job.rests = restsAfter(job.rests, gone, startMs);
    }
    // A put that was not answered before the server ended may have made a job all the same.
    for (const put of this.openPuts.values()) {
      put.putMs -= goneMs;
      put.rests = restsAfter(put.rests, gone, startMs);
    }
  }

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
    const job = this.seen(id, seen.body, sentMs, nowMs);
    if (job.isDeleted) this.fail(job, `deleted, and found again in state ${seen.state}`);
    if (seen.tube !== job.body.tube) this.fail(job, `found in tube ${seen.tube} instead of ${job.body.tube}`);
    const fitting = job.rests.filter((rest) => this.#fits(job, rest, seen, sentMs, nowMs));
    if (fitting.length === 0) {
      this.fail(
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
    this.note(job, nowMs, `found ${seen.state}, pri ${seen.pri}`);
  }

  /** The server has no such job. */
  settleAbsent(id: number, nowMs: number): void {
    this.checked++;
    const job = this.jobs.get(id);
    if (job === undefined) return;
    if (!job.isDeleted && job.deletesOpen === 0 && job.acknowledgedMs < Number.POSITIVE_INFINITY) {
      this.fail(job, `acknowledged, not deleted, and lost: not there at ${time(nowMs)}`);
    }
    if (!job.isDeleted) this.count(job, -1);
    this.jobs.delete(id);
    this.goneIds.add(id);
  }

  /**
   * All ids below `newestId` were checked: unseen puts did not happen, and must not from now on.
   */
  settled(newestId: number, nowMs: number): void {
    this.settledUpTo = newestId;
    this.openPuts.clear();
    for (const kicks of this.tubeKicks.values()) kicks.settle(nowMs);
  }

  #fits(job: JobEntry, rest: Rest, seen: FoundJob, sentMs: number, nowMs: number): boolean {
    if (seen.pri !== rest.pri) return false;
    if (seen.state === "ready") return this.mayBeReady(job, rest, nowMs);
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
}
