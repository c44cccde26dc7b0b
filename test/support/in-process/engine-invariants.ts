// Checks an engine's invariants: every list, heap, count, index and timer against the others.

import assert from "node:assert/strict";
import type { Engine } from "../../../src/engine/engine.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import { arenaBytesOf } from "./arena-bytes.ts";
import { CheckedEngine, slotsOf } from "./checked-engine.ts";
import { CountInvariants } from "./count-invariants.ts";
import { ExtraInvariants } from "./extra-invariants.ts";
import { JobInvariants } from "./job-invariants.ts";
import { SessionInvariants } from "./session-invariants.ts";
import { TubeInvariants } from "./tube-invariants.ts";

/**
 * Throws AssertionError at the first broken invariant. `sessions` are the indexes of all sessions
 * that may exist, and those that are detached; `stillWaiting` tells whether the wait over several
 * shards of a session has not ended elsewhere.
 */
export function checkInvariants(
  engine: Engine,
  sessions: Iterable<number | Session>,
  stillWaiting: (session: Session) => boolean = () => true,
): void {
  new InvariantCheck(engine, sessions, stillWaiting).run();
}

/**
 * Throws AssertionError if the arena has more, or less, than the jobs and keys of the engine:
 * nothing may be under way.
 */
export function checkArenaAtRest(engine: Engine): void {
  const bytes = arenaBytesOf(engine, slotsOf(engine));
  assert.equal(engine.bodies.usedBytes, bytes, "bytes of the arena that jobs and keys have");
}

class InvariantCheck extends CheckedEngine {
  readonly jobs: JobInvariants = new JobInvariants(this);
  readonly extras: ExtraInvariants = new ExtraInvariants(this);
  readonly tubes: TubeInvariants = new TubeInvariants(this);
  readonly counts: CountInvariants = new CountInvariants(this);
  readonly sessionChecks: SessionInvariants = new SessionInvariants(this);

  run(): void {
    this.jobs.check();
    for (const tube of this.engine.tubes.values()) this.tubes.check(tube);
    for (const session of this.sessions) this.sessionChecks.check(session);
    this.sessionChecks.waiters();
    this.sessionChecks.timers();
    this.extras.check();
    this.extras.memory();
    this.counts.check();
  }
}
