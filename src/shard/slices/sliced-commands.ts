// Long moves of all sessions: those that fit into the present turn are done at once, the others stand in
// line. Those that wait for a job on its way to another shard stand aside, by that job: with a full disk there may be any number of
// them, for any time, and no turn looks at them before the engine tells of their job.

import { assert } from "../../base/assert.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

/** Jobs moved, or watches ended, for one client in one turn. */
export const TURN_JOBS_MAX = 1000;
/** A turn of a move ends after so long, even with fewer jobs: how long a job takes depends on how many others there are. */
export const SLICE_MS = 0.5;
/** Jobs between two looks at the clock. */
const JOBS_PER_CLOCK_READING = 125;
/**
 * How many times as many the commands of all clients that arrive in one turn may move at once; what is beyond
 * stands in line.
 */
const ALL_CLIENTS = 4;
/** How many of those of which the engine may not tell are looked at each time. */
const LOOKS = 16;

interface UnderWay {
  readonly session: ShardSession;
  readonly move: SlicedCommand;
  /** The last record before it: its answer waits for the records of all its turns. */
  readonly recordsBefore: number;
}

export class SlicedCommands {
  readonly #replies: Replies;
  readonly #jobsMax: number;
  readonly #clock: () => number;
  /** Time spent on moves since the caller set it to 0. */
  spentMs = 0;
  /** The first has the next turn. */
  readonly #line: UnderWay[] = [];
  /** Those that stand aside, by the jobs that they wait for. */
  readonly #aside = new Map<number, Set<UnderWay>>();
  /** Those of them whose job may have arrived unheard, with that job. */
  readonly #unheard = new Map<UnderWay, number>();
  /** Where the next look goes on: entries that were put back at the end would leave holes, which every look would have to pass. */
  #looks = this.#unheard.entries();
  /** Jobs and watches that commands may still move at once in this turn. */
  #turnLeft = 0;

  constructor(replies: Replies, jobsMax: number, clock: () => number) {
    this.#replies = replies;
    this.#jobsMax = jobsMax;
    this.#clock = clock;
  }

  /** Allows new commands as many moves as a turn may take. */
  beginTurn(): void {
    this.#turnLeft = this.#jobsMax * ALL_CLIENTS;
  }

  /** Whether so many moves of one client still fit into this turn; if so, they are taken off. */
  takesTurn(jobs: number): boolean {
    if (jobs > this.#jobsMax || jobs > this.#turnLeft) return false;
    this.#turnLeft -= jobs;
    return true;
  }

  /**
   * Begins a move, which is finished now or in a later turn; until then the session takes no other command.
   */
  start(session: ShardSession, move: SlicedCommand, nowMs: number): void {
    const underWay = this.#begin(session, move);
    const fits = this.takesTurn(Math.min(move.jobs, this.#jobsMax));
    if (!fits || !this.#step(underWay, nowMs)) this.#enqueue(underWay);
  }

  /** Lets a move begin in a later turn. */
  join(session: ShardSession, move: SlicedCommand): void {
    this.#enqueue(this.#begin(session, move));
  }

  #begin(session: ShardSession, move: SlicedCommand): UnderWay {
    assert(session.longMove === undefined, "a session has one long move at a time");
    session.longMove = move;
    return { session, move, recordsBefore: this.#replies.recordsBefore };
  }

  #enqueue(underWay: UnderWay): void {
    const { awaitedJob } = underWay.move;
    if (awaitedJob === undefined) this.#line.push(underWay);
    else this.#standAside(underWay, awaitedJob);
  }

  #standAside(underWay: UnderWay, job: number): void {
    const others = this.#aside.get(job);
    if (others === undefined) this.#aside.set(job, new Set([underWay]));
    else others.add(underWay);
    if (underWay.move.mayEndUnheard === true) this.#unheard.set(underWay, job);
  }

  /** The engine tells that a job is not on its way any more, or a shipment has landed: who waits for it has its next turns. */
  settled(job: number): void {
    const waiting = this.#aside.get(job);
    if (waiting === undefined) return;
    this.#aside.delete(job);
    for (const underWay of waiting) {
      this.#unheard.delete(underWay);
      this.#line.push(underWay);
    }
  }

  /** Looks at some of those of which the engine may not tell. */
  #lookAround(): void {
    for (let looks = Math.min(LOOKS, this.#unheard.size); looks > 0; looks--) {
      const { value } = this.#nextLook();
      if (value === undefined) return;
      const [underWay, job] = value;
      if (underWay.move.awaitedJob !== undefined) continue;
      this.#unheard.delete(underWay);
      this.#comeBack(underWay, job);
    }
  }

  /** The next of those in a circle. */
  #nextLook(): IteratorResult<[UnderWay, number], undefined> {
    const next = this.#looks.next();
    if (next.done !== true) return next;
    this.#looks = this.#unheard.entries();
    return this.#looks.next();
  }

  #comeBack(underWay: UnderWay, job: number): void {
    const others = this.#aside.get(job)!;
    others.delete(underWay);
    if (others.size === 0) this.#aside.delete(job);
    this.#line.push(underWay);
  }

  /** Whether a move could go on now; `mayAnswer` tells whether there is room for a reply to a session. */
  hasWork(mayAnswer: (session: ShardSession) => boolean): boolean {
    this.#lookAround();
    return this.#line.some(({ session }) => mayAnswer(session));
  }

  /** Goes on with one move. Returns its session if it is done. */
  step(mayAnswer: (session: ShardSession) => boolean, nowMs: number): ShardSession | undefined {
    this.#lookAround();
    const at = this.#line.findIndex(({ session }) => mayAnswer(session));
    if (at < 0) return undefined;
    const [underWay] = this.#line.splice(at, 1) as [UnderWay];
    // Its job may be on its way once more.
    const goesOn = underWay.move.awaitedJob === undefined;
    if (goesOn && this.#step(underWay, nowMs)) return underWay.session;
    this.#enqueue(underWay);
    return undefined;
  }

  #step({ session, move, recordsBefore }: UnderWay, nowMs: number): boolean {
    this.#replies.recordsBefore = recordsBefore;
    const beganMs = this.#clock();
    const isDone = this.#slice(move, nowMs, beganMs);
    if (isDone) {
      session.longMove = undefined;
      move.finish();
    }
    this.spentMs += this.#clock() - beganMs;
    return isDone;
  }

  #slice(move: SlicedCommand, nowMs: number, beganMs: number): boolean {
    let left = this.#jobsMax;
    for (;;) {
      const isDone = move.step(Math.min(left, JOBS_PER_CLOCK_READING), nowMs);
      left -= JOBS_PER_CLOCK_READING;
      const goesOn = !isDone && left > 0 && move.awaitedJob === undefined;
      if (goesOn && this.#clock() - beganMs < SLICE_MS) continue;
      move.rest?.();
      return isDone;
    }
  }
}
