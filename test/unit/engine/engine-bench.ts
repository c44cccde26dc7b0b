// An engine for tests: commands with short names, manual time, effects as words, invariants checked
// at each step.

import { Engine, Outcome, ReserveOutcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { ClientEffects, Meter } from "../../../src/engine/state/effects.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";

const SESSIONS = 32;
const OUTCOMES: Record<number, string> = {
  [Outcome.Done]: "done",
  [Outcome.NotFound]: "not found",
  [Outcome.NoRoom]: "no room",
};
const REFUSALS: Record<number, string> = {
  [ReserveOutcome.Waits]: "waits",
  [ReserveOutcome.TimedOut]: "timed out",
  [ReserveOutcome.DeadlineSoon]: "deadline soon",
};

export class EngineBench {
  readonly engine: Engine;
  nowMs = 0;
  /** Effects so far, as `session 1: job 3`. */
  effects: string[] = [];
  #nextId = 1;
  #sequence = 0;

  constructor(meter?: Meter) {
    const say = (session: Session, what: string): void =>
      void this.effects.push(`session ${session.index}: ${what}`);
    const effects: ClientEffects = {
      reserved: (session, slot) => say(session, `job ${this.#idOf(slot)}`),
      timedOut: (session) => say(session, "timed out"),
      deadlineSoon: (session) => say(session, "deadline soon"),
      waitDue: (session) => say(session, "wait due"),
      claim: () => true,
      stillWaiting: () => true,
      nextTubeSequence: () => ++this.#sequence,
    };
    this.engine = new Engine({ effects, ownsDefaultTube: true, ...(meter === undefined ? {} : { meter }) });
  }

  #idOf(slot: number): number {
    return this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  /** The session `index`, which uses `uses` and watches `watches`. */
  session(index: number, uses: string, ...watches: string[]): Session {
    const session = this.engine.session(index);
    this.engine.use(session, uses);
    for (const tube of watches) this.engine.watch(session, tube);
    return session;
  }

  /** Effects since the last look. */
  takeEffects(): string[] {
    this.check();
    return this.effects.splice(0);
  }

  check(): void {
    checkInvariants(
      this.engine,
      Array.from({ length: SESSIONS }, (_, index) => index),
    );
  }

  /** Lets time pass in one jump, as after a stall, and says what came of it. */
  jump(ms: number): string[] {
    this.nowMs += ms;
    this.engine.runDue(this.nowMs);
    return this.takeEffects();
  }

  /** Stores a job that was sent `sentAfterMs` after the turn began; returns its id. */
  put(
    session: Session,
    job: { pri?: number; delay?: number; ttr?: number; sentAfterMs?: number } = {},
  ): number {
    const id = this.#nextId++;
    const { pri = 0, delay = 0, ttr = 60, sentAfterMs = 0 } = job;
    const atMs = this.nowMs + sentAfterMs;
    const newJob = { id, pri, delaySeconds: delay, delayMillis: 0, ttrSeconds: ttr, bodyBytes: 0, atMs };
    this.engine.put(session, newJob, EMPTY_BODY, this.nowMs);
    return id;
  }

  /** `job N`, or what else a reserve gives. */
  reserve(session: Session, timeoutSeconds = Number.POSITIVE_INFINITY): string {
    const slot = this.engine.reserve(session, timeoutSeconds * 1000, this.nowMs);
    this.check();
    return slot >= 0 ? `job ${this.#idOf(slot)}` : REFUSALS[slot]!;
  }

  release(session: Session, id: number, pri = 0, delay = 0): string {
    return OUTCOMES[this.engine.release(session, id, pri, delay, this.nowMs)]!;
  }

  bury(session: Session, id: number, pri = 0): string {
    return OUTCOMES[this.engine.bury(session, id, pri, this.nowMs)]!;
  }

  reserveJob(session: Session, id: number): string {
    return OUTCOMES[this.engine.reserveJob(session, id, this.nowMs)]!;
  }
}
