// Invariants of sessions and of the lists of those that wait.

import assert from "node:assert/strict";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { Timer } from "../../../src/engine/queues/heaps.ts";
import { type Session, Waiting, type Watch } from "../../../src/engine/state/session.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { DEADLINE_MARGIN_MS } from "../../../src/protocol/limits.ts";
import { type CheckedEngine, NEVER } from "./checked-engine.ts";
import type { TubeInvariants } from "./tube-invariants.ts";

/** A reservation ends after its deadline, not at it. */
const AFTER_DEADLINE_MS = 0.001;

/** Parts of the check that this file uses. */
interface InvariantCheck extends CheckedEngine {
  readonly tubes: TubeInvariants;
}

export class SessionInvariants {
  readonly #check: InvariantCheck;

  constructor(check: InvariantCheck) {
    this.#check = check;
  }

  check(session: Session): void {
    const name = `session ${session.index}`;
    this.#check.tubes.heap(session.held, JobState.Reserved, "deadlineAtMs", `${name} held`);
    for (let position = 0; position < session.held.size; position++) {
      const slot = session.held.at(position);
      assert.equal(this.#check.page(slot).holder[rowOf(slot)], session.index, `${name}: holder of its jobs`);
    }
    assert.equal(
      this.#check.tubes.list(session.heldInOrder, JobState.Reserved, name),
      session.held.size,
      `${name}: all jobs that it holds are in its list`,
    );
    for (
      let slot = session.heldInOrder.first;
      slot !== NO_SLOT;
      slot = this.#check.page(slot).next[rowOf(slot)]!
    )
      assert.equal(
        this.#check.page(slot).holder[rowOf(slot)],
        session.index,
        `${name}: its list is of its jobs`,
      );
    if (session.used !== undefined)
      assert.equal(this.#check.engine.tubes.get(session.used.name), session.used);
    for (const [tube, watch] of session.watches) {
      assert.equal(this.#check.engine.tubes.get(tube.name), tube, `${name}: watches tubes that exist`);
      assert.ok(watch.tube === tube && watch.session === session, `${name}: its watches are its own`);
    }
    this.#turns(session, name);
    const soonestMs = this.#check.soonest(session.held);
    const expiryMs = soonestMs + AFTER_DEADLINE_MS;
    const waits = session.waiting !== Waiting.No;
    if (!waits) assert.equal(session.timeoutAtMs, NEVER, `${name}: a timeout only while it waits`);
    const full = waits ? Math.min(session.timeoutAtMs, soonestMs - DEADLINE_MARGIN_MS, expiryMs) : expiryMs;
    // The acceptor of a wait over several shards is told once that it is due; after that only
    // reservations end.
    const told = session.waiting === Waiting.Shared && session.timer.atMs === expiryMs;
    if (!told) assert.equal(session.timer.atMs, full, `${name}: its timer`);
    if (session.halfClosed)
      assert.notEqual(session.waiting, Waiting.Alone, `${name}: half-closed, never waits`);
  }

  /** The shares of a session that has weights: its tubes, and the jobs of each that it holds. */
  #turns(session: Session, name: string): void {
    const { turns } = session;
    if (turns === undefined) return;
    const held = new Map<Tube, number>();
    for (let position = 0; position < session.held.size; position++) {
      const tube = this.#check.engine.tubeOf(session.held.at(position));
      held.set(tube, (held.get(tube) ?? 0) + 1);
    }
    for (const [tube, share] of turns.shares) {
      assert.equal(share.held, held.get(tube) ?? 0, `${name}: jobs of ${tube.name} that it holds`);
      assert.equal(share.isWatched, session.watches.has(tube), `${name}: whether it watches ${tube.name}`);
      assert.ok(share.isWatched || share.held > 0, `${name}: keeps no share of ${tube.name} without need`);
      assert.ok(share.remainder < share.weight, `${name}: what is left over of ${tube.name}`);
    }
    for (const tube of [...session.watches.keys(), ...held.keys()])
      assert.ok(turns.shares.has(tube), `${name}: has a share of ${tube.name}`);
  }

  /**
   * Waiters' lists: each waiting session once in each of its tubes, or among the wide ones, in the
   * order of waits.
   */
  waiters(): void {
    const linked = new Set<Watch>();
    for (const tube of this.#check.engine.tubes.values()) {
      let previous: Watch | undefined;
      const waiters = this.#check.engine.waiters.of(tube);
      for (let watch = waiters?.first; watch !== undefined; watch = watch.next) {
        const { session } = watch;
        assert.ok(!linked.has(watch), `${tube.name}: a waiter is in its list once`);
        linked.add(watch);
        assert.equal(watch.previous, previous, `${tube.name}: links of its waiters`);
        assert.equal(session.watches.get(tube), watch, `${tube.name}: its waiters watch it`);
        assert.ok(session.waiting !== Waiting.No && session.linkedInTubes, `${tube.name}: its waiters wait`);
        if (previous !== undefined)
          assert.ok(previous.session.waitOrder < session.waitOrder, `${tube.name}: waiters in order`);
        previous = watch;
      }
      assert.equal(waiters?.last, previous, `${tube.name}: its last waiter`);
    }
    let alone = 0;
    for (const session of this.#check.sessions) {
      if (session.waiting === Waiting.No) continue;
      if (session.waiting === Waiting.Alone) alone++;
      const name = `session ${session.index}`;
      if (session.fillsAt > 0) continue;
      if (session.linkedInTubes) {
        for (const watch of session.watches.values())
          assert.ok(linked.has(watch), `${name}: in all its tubes' lists`);
      }
      if (session.waiting === Waiting.Shared && !this.#check.stillWaiting(session)) continue;
      for (const tube of session.watches.keys()) {
        assert.ok(
          !tube.open || tube.ready.top === NO_SLOT,
          `${name} waits although ${tube.name} has a ready job`,
        );
      }
      const slot = this.#check.engine.bestReady(session, 0);
      assert.equal(slot, NO_SLOT, `${name} waits although it could have a job`);
    }
    assert.equal(this.#check.engine.waitingAlone, alone, "sessions that wait here alone");
    this.#fills();
    this.#wideWaiters();
  }

  /** Waits for batches to fill: no acceptor of a batch that may be full is left untold. */
  #fills(): void {
    const { engine, sessions } = this.#check;
    const filling = [...sessions].filter(({ fillsAt }) => fillsAt > 0);
    assert.equal(engine.waiters.fills, filling.length, "sessions that wait for a batch");
    const isTold = (tube: Tube): boolean =>
      [...(engine.waiters.of(tube)?.fills ?? [])].some((session) => session.isTold);
    for (const tube of engine.tubes.values())
      for (const session of engine.waiters.of(tube)?.fills ?? [])
        assert.ok(filling.includes(session), `${tube.name}: a waiter for a batch waits`);
    for (const session of filling) {
      const name = `session ${session.index}`;
      assert.equal(session.waiting, Waiting.Shared, `${name}: waits for a batch`);
      const tubes = [...session.watches.keys()];
      for (const tube of tubes)
        assert.ok(engine.waiters.of(tube)?.fills?.has(session), `${name}: waits for a batch of ${tube.name}`);
      if (session.isTold || tubes.some((tube) => engine.gives(tube) && isTold(tube))) continue;
      assert.ok(
        engine.readyFor(session) < session.fillsAt,
        `${name} is not told of a batch that may be full`,
      );
    }
  }

  #wideWaiters(): void {
    const wide = this.#check.sessions.filter(
      (session) => session.waiting !== Waiting.No && !session.linkedInTubes,
    );
    wide.sort((a, b) => a.waitOrder - b.waitOrder);
    wide.forEach((session, position) => {
      assert.equal(session.previousWide, wide[position - 1], "links of the wide waiters");
      assert.equal(session.nextWide, wide[position + 1], "links of the wide waiters");
      assert.equal(session.unlinked.length, 0, "wide waiters are linked in all their tubes");
    });
    for (const session of this.#check.sessions) {
      for (const watch of session.watches.values())
        assert.equal(
          watch.linkedWide,
          session.unlinked[-1 - watch.widePosition] !== watch,
          "a watch is linked, or known not to be",
        );
      for (const watch of session.unlinked)
        assert.equal(session.watches.get(watch.tube), watch, "what is not linked is a watch");
    }
    for (const tube of this.#check.engine.tubes.values()) this.#wideWaitersOf(tube);
  }

  #wideWaitersOf(tube: Tube): void {
    const waiters = this.#check.engine.waiters.of(tube)?.wide;
    for (let position = 0; waiters !== undefined && position < waiters.size; position++) {
      const watch = waiters.at(position);
      assert.equal(watch.widePosition, position, `${tube.name}: a wide waiter knows its position`);
      assert.equal(watch.session.watches.get(tube), watch, `${tube.name}: its wide waiters watch it`);
      assert.ok(
        waiters.at(Math.max(0, (position - 1) >> 1)).widePlace <= watch.widePlace,
        `${tube.name}: order of its wide waiters`,
      );
      if (watch.session.waiting !== Waiting.No && !watch.session.linkedInTubes)
        assert.ok(watch.widePlace <= watch.session.waitOrder, `${tube.name}: no place is too late`);
    }
  }

  timers(): void {
    const timers: Timer<unknown>[] = [];
    for (const tube of this.#check.engine.tubes.values())
      timers.push(tube.delayTimer, tube.pauseTimer, tube.expiryTimer, tube.limiterTimer);
    for (const session of this.#check.sessions) timers.push(session.timer);
    for (const timer of timers)
      assert.equal(timer.position >= 0, timer.atMs < NEVER, "a timer that is set is in its heap");
    assert.equal(
      this.#check.engine.nextDueAtMs,
      Math.min(
        this.#check.engine.policies.keys.table.nextAtMs,
        this.#check.engine.tubes.retiredLimiters.nextAtMs,
        this.#check.engine.tubes.retiredBuckets.nextAtMs,
        ...timers.map((timer) => timer.atMs),
      ),
      "the next timer",
    );
  }
}
