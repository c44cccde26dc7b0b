// The scheduler of sliced commands. A command that fits into the current turn runs at once; all
// others queue. Commands that wait for a job in transfer are set aside under that job: with a full
// disk there may be any number of them, for any time. No turn examines them until the engine
// reports on their job.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { ReplyWriter } from "./replies.ts";
import type { ShardSession, SlicedCommand } from "./shard-session.ts";

/** Jobs processed, or watches ended, for one client in one turn. */
export const TURN_JOBS_MAX = 1000;
/**
 * Time after which a command's turn ends, even with fewer jobs: the cost of a job depends on how
 * many others there are.
 */
export const SLICE_MS = 0.5;
/** Jobs between two clock readings. */
const JOBS_PER_CLOCK_READING = 125;
/**
 * The multiple of a client's limit that the commands of all clients may process at once in one
 * turn. The rest queues.
 */
const ALL_CLIENTS = 4;
/** How many commands without a guaranteed report are checked each time. */
const LOOKS = 16;

interface UnderWay {
  readonly session: ShardSession;
  readonly move: SlicedCommand;
  /** The last record before it. Its answer waits for the records of all its turns. */
  readonly recordsBefore: number;
}

export class SlicedCommands {
  readonly #replies: ReplyWriter;
  readonly #jobsMax: number;
  readonly #clock: () => number;
  /** Time spent on sliced commands since the caller reset it. */
  spentMs = 0;
  /** Commands in progress. */
  size = 0;
  /** Whether this turn's allowance has been touched. */
  isTouched = false;
  /** The first has the next turn. */
  readonly #line: UnderWay[] = [];
  /** Commands set aside, by the jobs that they wait for. */
  readonly #aside = new Map<number, Set<UnderWay>>();
  /** Those whose job may have arrived without a report, with that job. */
  readonly #unheard = new Map<UnderWay, number>();
  /**
   * Position of the next check. Moving checked entries to the end would leave holes, which every
   * check would have to pass.
   */
  #looks = this.#unheard.entries();
  /** Jobs and watches that commands may still process at once in this turn. */
  #turnLeft: number;

  constructor(replies: ReplyWriter, jobsMax: number, clock: () => number) {
    this.#replies = replies;
    this.#jobsMax = jobsMax;
    this.#clock = clock;
    this.#turnLeft = jobsMax * ALL_CLIENTS;
  }

  /** Starts a turn with the full allowance. */
  beginTurn(): void {
    assert(this.#jobsMax > 0, "a turn processes jobs");
    this.#turnLeft = this.#jobsMax * ALL_CLIENTS;
    this.isTouched = false;
  }

  /** Returns whether `jobs` of one client still fit into this turn, and if so deducts them. */
  takesTurn(jobs: number): boolean {
    assert(this.#turnLeft >= 0, "a turn processes no more than its allowance");
    if (jobs > this.#jobsMax || jobs > this.#turnLeft) return false;
    this.#turnLeft -= jobs;
    this.isTouched = true;
    return true;
  }

  /**
   * Starts a command, which finishes now or in a later turn. Until then the session executes no
   * other.
   */
  start(session: ShardSession, move: SlicedCommand, nowMs: number): void {
    const underWay = this.#begin(session, move);
    const fits = this.takesTurn(Math.min(move.jobs, this.#jobsMax));
    if (!fits || !this.#step(underWay, nowMs)) this.#enqueue(underWay);
  }

  /** Starts a command in a later turn. */
  join(session: ShardSession, move: SlicedCommand): void {
    this.#enqueue(this.#begin(session, move));
  }

  #begin(session: ShardSession, move: SlicedCommand): UnderWay {
    assert(session.slicedCommand === undefined, "a session has one sliced command at a time");
    session.slicedCommand = move;
    this.size++;
    return { session, move, recordsBefore: this.#replies.recordsBefore };
  }

  #enqueue(underWay: UnderWay): void {
    assert(underWay.session.slicedCommand === underWay.move, "a queued command belongs to its session");
    const { awaitedJob } = underWay.move;
    if (awaitedJob === undefined) this.#line.push(underWay);
    else this.#standAside(underWay, awaitedJob);
  }

  #standAside(underWay: UnderWay, job: number): void {
    const others = this.#aside.get(job);
    if (CHECKED) assert(others?.has(underWay) !== true, "a command is set aside once");
    if (others === undefined) this.#aside.set(job, new Set([underWay]));
    else others.add(underWay);
    if (underWay.move.mayEndUnheard === true) this.#unheard.set(underWay, job);
  }

  /**
   * Queues the commands that wait for a job, because its transfer is over or a transfer has
   * arrived.
   */
  settled(job: number): void {
    const waiting = this.#aside.get(job);
    if (waiting === undefined) return;
    assert(waiting.size > 0, "an awaited job has a waiting command");
    this.#aside.delete(job);
    for (const underWay of waiting) {
      this.#unheard.delete(underWay);
      this.#line.push(underWay);
    }
  }

  /** Checks some of the commands without a guaranteed report. */
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

  /** Returns the next of them, round robin. */
  #nextLook(): IteratorResult<[UnderWay, number], undefined> {
    const next = this.#looks.next();
    if (next.done !== true) return next;
    this.#looks = this.#unheard.entries();
    return this.#looks.next();
  }

  #comeBack(underWay: UnderWay, job: number): void {
    const others = this.#aside.get(job);
    assert(others !== undefined, "a command that was set aside waits for its job");
    const wasAside = others.delete(underWay);
    assert(wasAside, "a command comes back once");
    if (others.size === 0) this.#aside.delete(job);
    this.#line.push(underWay);
  }

  /**
   * Returns whether a command could continue now. `mayAnswer` tells whether there is room for a
   * reply to a session.
   */
  hasWork(mayAnswer: (session: ShardSession) => boolean): boolean {
    this.#lookAround();
    return this.#line.some(({ session }) => mayAnswer(session));
  }

  /** Continues one command. Returns its session if it is done. */
  step(mayAnswer: (session: ShardSession) => boolean, nowMs: number): ShardSession | undefined {
    this.#lookAround();
    const at = this.#line.findIndex(({ session }) => mayAnswer(session));
    if (at < 0) return undefined;
    const [underWay] = this.#line.splice(at, 1) as [UnderWay];
    // Its job may be in transfer again.
    const goesOn = underWay.move.awaitedJob === undefined;
    assert(
      underWay.session.slicedCommand === underWay.move,
      "a command whose turn it is belongs to its session",
    );
    if (goesOn && this.#step(underWay, nowMs)) return underWay.session;
    this.#enqueue(underWay);
    return undefined;
  }

  #step({ session, move, recordsBefore }: UnderWay, nowMs: number): boolean {
    assert(session.slicedCommand === move, "a command in progress belongs to its session");
    this.#replies.recordsBefore = recordsBefore;
    const beganMs = this.#clock();
    const isDone = this.#slice(move, nowMs, beganMs);
    if (isDone) {
      session.slicedCommand = undefined;
      this.size--;
      assert(this.size >= 0, "the number of commands is not negative");
      move.finish();
    }
    this.spentMs += this.#clock() - beganMs;
    assert(this.spentMs >= 0, "the time of a slice is not negative");
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

// A command that waits for a transfer: of its own job, of a schedule, or of a dead job to a
// dead-letter tube. With these waits, several shards behave like one.

export class AwaitJob implements SlicedCommand {
  readonly jobs = 1;
  readonly #awaited: () => number | undefined;
  readonly #finish: () => void;

  /** `awaited` returns the id of the job in transfer, or undefined if the command may continue. */
  constructor(awaited: () => number | undefined, finish: () => void) {
    this.#awaited = awaited;
    this.#finish = finish;
  }

  get awaitedJob(): number | undefined {
    return this.#awaited();
  }

  step(): boolean {
    return this.#awaited() === undefined;
  }

  finish(): void {
    assert(this.#awaited() === undefined, "a command continues when the transfer of its job is over");
    this.#finish();
  }
}

// The end of a connection: gives back its jobs and ends its watches.

export class SessionCleanup implements SlicedCommand {
  readonly #engine: Engine;
  readonly #session: ShardSession;

  constructor(engine: Engine, session: ShardSession) {
    this.#engine = engine;
    this.#session = session;
  }

  /** Watches count like jobs. */
  get jobs(): number {
    const { held, watches } = this.#session.engineSession;
    return held.size + watches.size;
  }

  step(jobsMax: number, nowMs: number): boolean {
    assert(this.#session.ended, "only a client that is gone gives back all its jobs");
    return this.#engine.giveBack(this.#session.engineSession, jobsMax, nowMs);
  }

  /**
   * Nothing to do: the shard forgets an ended session after its last sliced command, and reports
   * that itself.
   */
  finish(): void {}
}
