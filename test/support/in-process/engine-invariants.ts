// Checks an engine's invariants: every list, heap, count, index and timer against the others.

import assert from "node:assert/strict";
import type { Engine } from "../../../src/engine/engine.ts";
import { type JobPage, JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { BYTES_OF } from "../../../src/engine/memory-use.ts";
import { NO_GROUP } from "../../../src/engine/queues/job-groups.ts";
import type { JobList } from "../../../src/engine/queues/job-list.ts";
import type { DeadlineHeap, ReadyHeap } from "../../../src/engine/queues/slot-heap.ts";
import type { Timer } from "../../../src/engine/queues/timer-heap.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { type Session, Waiting, type Watch } from "../../../src/engine/waiting/session.ts";
import { DEADLINE_MARGIN_MS, URGENT_PRI_LIMIT } from "../../../src/protocol/limits.ts";

const NEVER = Number.POSITIVE_INFINITY;
/** A reservation ends after its deadline, not at it. */
const AFTER_DEADLINE_MS = 0.001;
const STATES = [
  JobState.Ready,
  JobState.Reserved,
  JobState.Buried,
  JobState.Delayed,
  JobState.Moving,
] as const;

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
  assert.equal(engine.bodies.usedBytes, arenaBytesOf(engine), "bytes of the arena that jobs and keys have");
}

/**
 * What the bodies and attributes of all jobs and all keys take in the arena, from their lengths
 * alone.
 */
function arenaBytesOf(engine: Engine): number {
  const { jobs, policies } = engine;
  let bytes = 0;
  jobs.forEach((slot) => {
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    bytes += cellBytesOf(page.bodyBytes[row]!);
    const { length } = policies.failures.of(slot);
    if (length > 0) bytes += cellBytesOf(2 + length);
    if (page.extras === undefined) return;
    bytes += cellBytesOf(page.extras.attributeBytes[row]!) + cellBytesOf(page.extras.originBytes[row]!);
  });
  for (const row of policies.keys.table.rows()) bytes += cellBytesOf(policies.keys.table.cellOf(row).length);
  return bytes;
}

/** Steps of 16 to 256 bytes, then four in each doubling to 64 KiB, then whole MiB. */
function cellBytesOf(bytes: number): number {
  if (bytes > 65536) return Math.ceil(bytes / 2 ** 20) * 2 ** 20;
  if (bytes <= 256) return Math.ceil(bytes / 16) * 16;
  let doubling = 256;
  while (doubling * 2 < bytes) doubling *= 2;
  return Math.ceil(bytes / (doubling / 4)) * (doubling / 4);
}

class InvariantCheck {
  readonly #engine: Engine;
  readonly #sessions: readonly Session[];
  readonly #stillWaiting: (session: Session) => boolean;

  constructor(
    engine: Engine,
    sessions: Iterable<number | Session>,
    stillWaiting: (session: Session) => boolean,
  ) {
    this.#engine = engine;
    this.#sessions = [...sessions].map((each) => (typeof each === "number" ? engine.session(each) : each));
    this.#stillWaiting = stillWaiting;
  }

  run(): void {
    this.#jobs();
    for (const tube of this.#engine.tubes.values()) this.#tube(tube);
    for (const session of this.#sessions) this.#session(session);
    this.#waiters();
    this.#timers();
    this.#extras();
    this.#memory();
  }

  // --- memory ------------------------------------------------------------------------------------

  /** What clients make the engine keep is counted as it is. */
  #memory(): void {
    const engine = this.#engine;
    const { jobs, policies, settings } = engine;
    const { retiredLimiters } = engine.tubes;
    let extraRows = 0;
    for (const page of jobs.pages) if (page?.extras !== undefined) extraRows += page.live;
    const tubes = [...engine.tubes.values()];
    const groups = tubes.reduce((sum, tube) => sum + (tube.groups?.size ?? 0), 0);
    const watches = tubes.reduce((sum, tube) => sum + tube.watching, 0);
    const counted = {
      job: jobs.live,
      extras: extraRows,
      failurePage: jobs.pages.filter((page) => page?.failures !== undefined).length,
      tube: tubes.length,
      watch: watches,
      group: groups,
      key: policies.keys.table.size,
      retiredLimiter: retiredLimiters.size,
      setting: settings.size,
    };
    let bytes = engine.bodies.usedBytes;
    for (const [what, count] of Object.entries(counted))
      bytes += count * BYTES_OF[what as keyof typeof BYTES_OF];
    assert.equal(engine.memoryBytes, bytes, "memory that jobs and tubes take");
    const { usedBytes } = engine.bodies;
    const ownedBytes = arenaBytesOf(engine);
    assert.ok(usedBytes >= ownedBytes, `jobs and keys have ${ownedBytes} of ${usedBytes} bytes`);
    assert.equal(
      retiredLimiters.size === 0,
      retiredLimiters.nextAtMs === NEVER,
      "a bucket is kept until it is full",
    );
    for (const tube of tubes)
      assert.ok(!retiredLimiters.has(tube.name), `${tube.name} has its bucket itself`);
  }

  // --- extras and keys ---------------------------------------------------------------------------

  /**
   * Extras agree with their jobs, keys with theirs, the bytes of a tube with the sum of its bodies.
   */
  #extras(): void {
    const { table: keys } = this.#engine.policies.keys;
    const expiring = new Map<Tube, number>();
    const bytes = new Map<Tube, number>();
    let held = 0;
    this.#engine.jobs.forEach((slot) => {
      const page = this.#page(slot);
      const row = rowOf(slot);
      const name = `job ${page.id[row]}`;
      const tube = this.#engine.tubeOf(slot);
      bytes.set(tube, (bytes.get(tube) ?? 0) + page.bodyBytes[row]!);
      const { extras } = page;
      if (extras === undefined) return;
      const state = page.state[row]!;
      const waits = state === JobState.Ready || state === JobState.Delayed;
      const expires = waits && extras.expiresAtMs[row]! > 0;
      const position = extras.expiryPosition[row]!;
      assert.equal(position >= 0, expires, `${name}: among those that expire`);
      if (expires) {
        expiring.set(tube, (expiring.get(tube) ?? 0) + 1);
        assert.equal(tube.expiry.at(position), slot, `${name}: where it says among those that expire`);
      }
      const keyRow = extras.keyRow[row]!;
      if (keyRow < 0) return;
      assert.equal(keys.idOf(keyRow), page.id[row], `${name}: its key is its own`);
      if (keys.slotOf(keyRow) < 0) return;
      assert.equal(keys.slotOf(keyRow), slot, `${name}: has its key`);
      held++;
    });
    assert.equal(keys.size, held + keys.windows, "each key has its job, or a time");
    for (const tube of this.#engine.tubes.values()) {
      assert.equal(tube.expiry.size, expiring.get(tube) ?? 0, `${tube.name}: jobs that expire`);
      for (let position = 1; position < tube.expiry.size; position++) {
        const [above, below] = [tube.expiry.at((position - 1) >> 1), tube.expiry.at(position)].map(
          (slot) => this.#page(slot).extras!.expiresAtMs[rowOf(slot)]!,
        );
        assert.ok(above! <= below!, `${tube.name}: the first to expire is on top`);
      }
      assert.equal(tube.bytes, bytes.get(tube) ?? 0, `${tube.name}: bytes of bodies`);
      if (tube.limiter === undefined)
        assert.equal(tube.open, !tube.paused, `${tube.name}: open unless it is paused`);
      else if (tube.paused) assert.ok(!tube.open, `${tube.name}: closed while it is paused`);
      this.#groups(tube);
    }
  }

  /** Held, or handed on by its holder and not yet elsewhere. */
  #isInWork(slot: number): boolean {
    const state = this.#state(slot);
    if (state !== JobState.Moving) return state === JobState.Reserved;
    return this.#page(slot).previous[rowOf(slot)] === JobState.Reserved;
  }

  /** Groups have the jobs that name them, and as many in work as are held. */
  #groups(tube: Tube): void {
    const { groups } = tube;
    const counts = new Map<number, { jobs: number; inWork: number }>();
    this.#engine.jobs.forEach((slot) => {
      if (this.#engine.tubeOf(slot) !== tube) return;
      const number = this.#page(slot).extras?.groupRow[rowOf(slot)] ?? NO_GROUP;
      const count = counts.get(number) ?? { jobs: 0, inWork: 0 };
      counts.set(number, count);
      count.jobs++;
      if (this.#isInWork(slot)) count.inWork++;
    });
    if (groups === undefined) {
      assert.ok(
        [...counts.keys()].every((number) => number === NO_GROUP),
        `${tube.name}: no groups`,
      );
      return;
    }
    let named = 0;
    for (const [number, { jobs, inWork }] of counts) {
      const group = groups.describe(number);
      assert.equal(group?.inWork, inWork, `${tube.name}: in work of group ${number}`);
      if (number === NO_GROUP) continue;
      named++;
      assert.equal(group?.jobs, jobs, `${tube.name}: jobs of group ${number}`);
    }
    assert.ok(groups.size >= named, `${tube.name}: its groups`);
  }

  #page(slot: number): JobPage {
    return this.#engine.jobs.pageOf(slot);
  }

  #state(slot: number): number {
    return this.#page(slot).state[rowOf(slot)]!;
  }

  // --- jobs --------------------------------------------------------------------------------------

  #jobs(): void {
    const engine = this.#engine;
    const counts = [0, 0, 0, 0, 0, 0];
    const perTube = new Map<Tube, number[]>();
    const urgent = new Map<Tube, number>();
    const bodies = new Set<number>();
    let live = 0;
    engine.jobs.forEach((slot) => {
      live++;
      const page = this.#page(slot);
      const row = rowOf(slot);
      const state = page.state[row]!;
      const id = page.id[row]!;
      assert.equal(engine.find(id), slot, `the index knows job ${id}`);
      const tube = engine.tubeOf(slot);
      assert.equal(engine.tubes.get(tube?.name), tube, `job ${id} lives in a tube that exists`);
      counts[state]!++;
      const inTube = perTube.get(tube) ?? [0, 0, 0, 0, 0, 0];
      inTube[state]!++;
      perTube.set(tube, inTube);
      if (state === JobState.Ready && page.pri[row]! < URGENT_PRI_LIMIT)
        urgent.set(tube, (urgent.get(tube) ?? 0) + 1);
      this.#place(slot, state, tube);
      const body = page.body[row]!;
      if (page.bodyBytes[row]! > 0) {
        assert.ok(!bodies.has(body), `job ${id} has a body of its own`);
        bodies.add(body);
      }
    });
    assert.equal(engine.jobs.live, live, "the table counts its jobs");
    for (const state of STATES)
      assert.equal(engine.jobCounts[state], counts[state], `jobs in state ${state}`);
    let urgentJobs = 0;
    for (const tube of engine.tubes.values()) {
      for (const state of STATES)
        assert.equal(
          tube.jobsIn(state),
          perTube.get(tube)?.[state] ?? 0,
          `${tube.name}: jobs in state ${state}`,
        );
      assert.equal(tube.urgentJobs, urgent.get(tube) ?? 0, `${tube.name}: urgent jobs`);
      urgentJobs += tube.urgentJobs;
    }
    assert.equal(engine.urgentJobs, urgentJobs, "urgent jobs");
  }

  /** A job is in the one queue of its state, at the position that it remembers. */
  #place(slot: number, state: number, tube: Tube): void {
    if (state === JobState.Moving || state === JobState.Buried) return;
    if (state === JobState.Ready && tube.groups !== undefined) return;
    const page = this.#page(slot);
    const row = rowOf(slot);
    const heap =
      state === JobState.Ready
        ? tube.ready
        : state === JobState.Delayed
          ? tube.delayed
          : this.#engine.session(page.holder[row]!).held;
    const position = page.heapPosition[row]!;
    assert.ok(position < heap.size, `job ${page.id[row]} is in the heap of its state`);
    assert.equal(heap.at(position), slot, `job ${page.id[row]} is where it says in the heap of its state`);
  }

  #heap(heap: ReadyHeap | DeadlineHeap, state: number, column: "pri" | "deadlineAtMs", name: string): void {
    const slots = new Set<number>();
    for (let position = 0; position < heap.size; position++) {
      const slot = heap.at(position);
      assert.ok(!slots.has(slot), `${name}: a job is in it once`);
      slots.add(slot);
      assert.equal(this.#state(slot), state, `${name}: its jobs are in state ${state}`);
      if (position === 0) continue;
      const parent = heap.at((position - 1) >> 1);
      const [above, below] = [parent, slot].map((each) => this.#page(each)[column][rowOf(each)]!);
      const [aboveId, belowId] = [parent, slot].map((each) => this.#page(each).id[rowOf(each)]!);
      assert.ok(above! < below! || (above === below && aboveId! < belowId!), `${name}: heap order`);
    }
    assert.equal(heap.top, heap.size === 0 ? NO_SLOT : heap.at(0), `${name}: top`);
  }

  #soonest(heap: DeadlineHeap): number {
    return heap.top === NO_SLOT ? NEVER : this.#page(heap.top).deadlineAtMs[rowOf(heap.top)]!;
  }

  // --- tubes -------------------------------------------------------------------------------------

  #tube(tube: Tube): void {
    const { name } = tube;
    assert.equal(this.#engine.findTube(name), tube);
    assert.ok(tube.referenced || name === "default", `${name}: the tube is referenced`);
    if (tube.groups === undefined) this.#heap(tube.ready, JobState.Ready, "pri", `${name} ready`);
    this.#heap(tube.delayed, JobState.Delayed, "deadlineAtMs", `${name} delayed`);
    assert.equal(
      this.#list(tube.buried, JobState.Buried, name),
      tube.jobsIn(JobState.Buried),
      `${name}: all buried jobs are in its list`,
    );
    assert.equal(
      this.#list(tube.ready, JobState.Ready, name),
      tube.jobsIn(JobState.Ready),
      `${name}: all ready jobs are in its list`,
    );
    let sinceMs = Number.NEGATIVE_INFINITY;
    for (let slot = tube.ready.first; slot !== NO_SLOT; slot = this.#page(slot).next[rowOf(slot)]!) {
      const nextMs = this.#page(slot).deadlineAtMs[rowOf(slot)]!;
      assert.ok(nextMs >= sinceMs, `${name}: its ready jobs are linked in the order of becoming so`);
      sinceMs = nextMs;
    }
    assert.equal(tube.readyAt >= 0, tube.ready.size > 0, `${name}: among the tubes with ready jobs`);
    const users = this.#sessions.filter((session) => session.used === tube);
    const watchers = this.#sessions.filter((session) => session.watches.has(tube));
    assert.equal(tube.using, users.length, `${name}: users`);
    assert.equal(tube.watching, watchers.length, `${name}: watchers`);
    assert.equal(tube.paused, tube.pauseTimer.atMs < NEVER, `${name}: paused while its timer runs`);
    assert.equal(tube.pauseSeconds > 0, tube.paused, `${name}: length of the pause`);
    assert.equal(tube.delayTimer.atMs, this.#soonest(tube.delayed), `${name}: timer of delayed jobs`);
  }

  /** Walks a list of jobs in a state; returns how many there are. */
  #list(list: JobList | ReadyHeap, state: number, name: string): number {
    let count = 0;
    let previous: number = NO_SLOT;
    for (let slot = list.first; slot !== NO_SLOT; slot = this.#page(slot).next[rowOf(slot)]!) {
      assert.equal(this.#state(slot), state, `${name}: only jobs in state ${state} are in its list`);
      assert.equal(this.#page(slot).previous[rowOf(slot)], previous, `${name}: links of its list`);
      assert.ok(++count <= this.#engine.jobs.live, `${name}: its list ends`);
      previous = slot;
    }
    assert.equal(list.last, previous, `${name}: end of its list`);
    return count;
  }

  // --- sessions ----------------------------------------------------------------------------------

  #session(session: Session): void {
    const name = `session ${session.index}`;
    this.#heap(session.held, JobState.Reserved, "deadlineAtMs", `${name} held`);
    for (let position = 0; position < session.held.size; position++) {
      const slot = session.held.at(position);
      assert.equal(this.#page(slot).holder[rowOf(slot)], session.index, `${name}: holder of its jobs`);
    }
    assert.equal(
      this.#list(session.heldInOrder, JobState.Reserved, name),
      session.held.size,
      `${name}: all jobs that it holds are in its list`,
    );
    for (let slot = session.heldInOrder.first; slot !== NO_SLOT; slot = this.#page(slot).next[rowOf(slot)]!)
      assert.equal(this.#page(slot).holder[rowOf(slot)], session.index, `${name}: its list is of its jobs`);
    if (session.used !== undefined) assert.equal(this.#engine.tubes.get(session.used.name), session.used);
    for (const [tube, watch] of session.watches) {
      assert.equal(this.#engine.tubes.get(tube.name), tube, `${name}: watches tubes that exist`);
      assert.ok(watch.tube === tube && watch.session === session, `${name}: its watches are its own`);
    }
    const soonestMs = this.#soonest(session.held);
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

  /**
   * Waiters' lists: each waiting session once in each of its tubes, or among the wide ones, in the
   * order of waits.
   */
  #waiters(): void {
    const linked = new Set<Watch>();
    for (const tube of this.#engine.tubes.values()) {
      let previous: Watch | undefined;
      const waiters = this.#engine.waiters.of(tube);
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
    for (const session of this.#sessions) {
      if (session.waiting === Waiting.No) continue;
      if (session.waiting === Waiting.Alone) alone++;
      const name = `session ${session.index}`;
      if (session.linkedInTubes) {
        for (const watch of session.watches.values())
          assert.ok(linked.has(watch), `${name}: in all its tubes' lists`);
      }
      if (session.waiting === Waiting.Shared && !this.#stillWaiting(session)) continue;
      for (const tube of session.watches.keys()) {
        assert.ok(
          !tube.open || tube.ready.top === NO_SLOT,
          `${name} waits although ${tube.name} has a ready job`,
        );
      }
      const slot = this.#engine.bestReady(session);
      assert.equal(slot, NO_SLOT, `${name} waits although it could have a job`);
    }
    assert.equal(this.#engine.waitingAlone, alone, "sessions that wait here alone");
    this.#wideWaiters();
  }

  #wideWaiters(): void {
    const wide = this.#sessions.filter((session) => session.waiting !== Waiting.No && !session.linkedInTubes);
    wide.sort((a, b) => a.waitOrder - b.waitOrder);
    wide.forEach((session, position) => {
      assert.equal(session.previousWide, wide[position - 1], "links of the wide waiters");
      assert.equal(session.nextWide, wide[position + 1], "links of the wide waiters");
      assert.equal(session.unlinked.length, 0, "wide waiters are linked in all their tubes");
    });
    for (const session of this.#sessions) {
      for (const watch of session.watches.values())
        assert.equal(
          watch.linkedWide,
          session.unlinked[-1 - watch.widePosition] !== watch,
          "a watch is linked, or known not to be",
        );
      for (const watch of session.unlinked)
        assert.equal(session.watches.get(watch.tube), watch, "what is not linked is a watch");
    }
    for (const tube of this.#engine.tubes.values()) this.#wideWaitersOf(tube);
  }

  #wideWaitersOf(tube: Tube): void {
    const waiters = this.#engine.waiters.of(tube)?.wide;
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

  #timers(): void {
    const timers: Timer<unknown>[] = [];
    for (const tube of this.#engine.tubes.values())
      timers.push(tube.delayTimer, tube.pauseTimer, tube.expiryTimer, tube.limiterTimer);
    for (const session of this.#sessions) timers.push(session.timer);
    for (const timer of timers)
      assert.equal(timer.position >= 0, timer.atMs < NEVER, "a timer that is set is in its heap");
    assert.equal(
      this.#engine.nextDueAtMs,
      Math.min(
        this.#engine.policies.keys.table.nextAtMs,
        this.#engine.tubes.retiredLimiters.nextAtMs,
        ...timers.map((timer) => timer.atMs),
      ),
      "the next timer",
    );
  }
}
