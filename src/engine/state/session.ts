// The engine's part of one connection: its tubes and reservations on this shard.

import { assert, CHECKED } from "../../base/assert.ts";
import { DEADLINE_MARGIN_MS } from "../../protocol/limits.ts";
import { type JobTable, NO_SLOT } from "../jobs/job-table.ts";
import { Timer, TimerHeap } from "../queues/heaps.ts";
import { DeadlineHeap, JobList } from "../queues/job-heaps.ts";
import type { Tube } from "../tubes/tube.ts";
import type { ReadyOrder } from "./ready-order.ts";
import type { TubeTurns } from "./tube-turns.ts";

/**
 * A session's watch on a tube; also the session's entry among the tube's waiters while it waits.
 */
export class Watch {
  readonly session: Session;
  readonly tube: Tube;
  next: Watch | undefined;
  previous: Watch | undefined;
  /**
   * Position among the tube's wide waiters; otherwise -1 - position in the session's `unlinked`.
   */
  widePosition = -1;
  /** Order in that heap: not later than that of the session's wait. */
  widePlace = 0;

  constructor(session: Session, tube: Tube) {
    this.session = session;
    this.tube = tube;
  }

  /** Whether the watch is among the tube's wide waiters. */
  get linkedWide(): boolean {
    return this.widePosition >= 0;
  }
}

/**
 * Capacity that a session's heap of held jobs keeps once reached: a worker that takes batches of a
 * hundred fills and empties its heap with each of them.
 */
const HELD_KEPT = 256;

/** How a session waits for a job. */
export const Waiting = {
  No: 0,
  /** On this shard only: it receives a job directly, and its timer ends the wait. */
  Alone: 1,
  /**
   * On several shards: a shard must claim it first, and its timer only asks its acceptor to end the
   * wait.
   */
  Shared: 2,
} as const;
export type Waiting = (typeof Waiting)[keyof typeof Waiting];

export class Session {
  /**
   * Stored in the `holder` column of the jobs that it holds, so it changes only while it holds
   * none.
   */
  index: number;
  /** The tube in use, if it is on this shard. */
  used: Tube | undefined;
  /** Watched tubes on this shard. */
  readonly watches: Map<Tube, Watch> = new Map();
  /** Iterates over them at the end of the session, which takes several steps if they are many. */
  unwatching: Iterator<Watch> | undefined;
  /** Jobs held here, by deadline. */
  readonly held: DeadlineHeap;
  /** The same jobs in the order of their reservation. */
  readonly heldInOrder: JobList;
  /** The next job of a touch-all, which runs in slices; NO_SLOT when none is in progress. */
  nextToTouch: number = NO_SLOT;
  waiting: Waiting = Waiting.No;
  /** Order of waits on this shard: the smaller has waited longer. */
  waitOrder = 0;
  /** When the wait times out; Infinity for never. Monotonic ms. */
  timeoutAtMs: number = Number.POSITIVE_INFINITY;
  /** Links of the list of waiting sessions that watch many tubes. */
  nextWide: Session | undefined;
  previousWide: Session | undefined;
  /** Whether it is linked into its tubes' waiter lists (false while it waits as a wide session). */
  linkedInTubes = false;
  /**
   * Watches that are not among their tube's wide waiters; empty while it waits as a wide session.
   */
  unlinked: Watch[] = [];
  /** Its tubes with ready jobs in order, once there were many; see ready-order.ts. */
  order: ReadyOrder | undefined;
  /** Shares of its tubes, once it has given one a weight or chosen an order of reserves. */
  turns: TubeTurns | undefined;
  /**
   * While it waits for a batch to fill: with this many ready jobs its acceptor counts again.
   * Otherwise 0.
   */
  fillsAt = 0;
  /** How long it waits after the first ready job; Infinity once the acceptor keeps the time. */
  lingerMs: number = Number.POSITIVE_INFINITY;
  lingerEndsAtMs: number = Number.POSITIVE_INFINITY;
  /** Whether its acceptor has been told to count, and has not decided yet. */
  isTold = false;
  /** Whether its client can't send any more, so that it never waits. */
  halfClosed = false;
  /** Whether it ends because the server stops. If so, the jobs that it holds have not failed. */
  endsWithServer = false;
  readonly timer: Timer<Session> = new Timer<Session>(this);

  constructor(index: number, jobs: JobTable) {
    this.index = index;
    this.held = new DeadlineHeap(jobs, HELD_KEPT);
    this.heldInOrder = new JobList(jobs);
  }

  /** The tube in use; only for commands that came to this shard because of it. */
  get tubeInUse(): Tube {
    assert(this.used !== undefined, "a command for the tube in use goes to its shard");
    return this.used;
  }

  /** Adds a watch to `unlinked`. */
  remember(watch: Watch): void {
    assert(watch.session === this, "a session remembers watches of its own");
    watch.widePosition = -1 - this.unlinked.length;
    // Most sessions have one watch, and V8 gives an array that starts empty room for 17.
    if (this.unlinked.length === 0) this.unlinked = [watch];
    else this.unlinked.push(watch);
    assert(this.unlinked.length <= this.watches.size, "a watch is remembered once");
  }

  /** Removes a watch from `unlinked`. */
  forget(watch: Watch): void {
    const position = -1 - watch.widePosition;
    assert(this.unlinked[position] === watch, "a watch is forgotten once");
    const last = this.unlinked.pop()!;
    if (last === watch) return;
    this.unlinked[position] = last;
    last.widePosition = watch.widePosition;
  }
}

// Timers of sessions: when a reservation or a wait ends.

/** A reservation ends when now > deadline (not at it); timers fire when now >= their time. */
const AFTER_DEADLINE_MS = 0.001;

/** Returns whether a reservation with this deadline is over. */
export function isOver(deadlineAtMs: number, nowMs: number): boolean {
  if (CHECKED) assert(!Number.isNaN(deadlineAtMs + nowMs), "a reservation ends at a time");
  return deadlineAtMs + AFTER_DEADLINE_MS <= nowMs;
}

/** Returns whether the session's soonest reservation is in its last second, or over. */
export function inMargin(session: Session, nowMs: number): boolean {
  return nowMs >= session.held.soonestMs - DEADLINE_MARGIN_MS;
}

export class SessionTimers {
  readonly heap: TimerHeap<Session> = new TimerHeap<Session>();

  /** Updates the timer; call after the session's reservations or wait have changed. */
  set(session: Session): void {
    const { soonestMs } = session.held;
    if (CHECKED) assert(!Number.isNaN(soonestMs), "the next reservation ends at a time");
    if (session.waiting === Waiting.No) this.heap.set(session.timer, soonestMs + AFTER_DEADLINE_MS);
    else this.heap.set(session.timer, Math.min(session.timeoutAtMs, soonestMs - DEADLINE_MARGIN_MS));
  }

  /** Sets the timer to the end of a reservation only, even while the session waits. */
  setForTimeout(session: Session): void {
    this.heap.set(session.timer, session.held.soonestMs + AFTER_DEADLINE_MS);
  }

  clear(session: Session): void {
    assert(session.waiting === Waiting.No, "a session without a timer waits for nothing");
    this.heap.set(session.timer, Number.POSITIVE_INFINITY);
  }
}
