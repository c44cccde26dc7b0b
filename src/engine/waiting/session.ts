// What an engine remembers of one connection: the part of its tubes and reservations that lives on this
// shard.

import { assert } from "../../base/assert.ts";
import { type JobTable, NO_SLOT } from "../jobs/job-table.ts";
import { JobList } from "../queues/job-list.ts";
import { DeadlineHeap } from "../queues/slot-heap.ts";
import { Timer } from "../queues/timer-heap.ts";
import type { Tube } from "../tubes/tube.ts";
import type { ReadyOrder } from "./ready-order.ts";

/** A session watches a tube; also the session's place among the tube's waiters while it waits. */
export class Watch {
  readonly session: Session;
  readonly tube: Tube;
  next: Watch | undefined;
  previous: Watch | undefined;
  /**
   * Position among the tube's wide waiters, or -1 - position among those of the session that are not linked
   * there.
   */
  widePosition = -1;
  /** Order there: not later than that of the session's wait. */
  widePlace = 0;

  constructor(session: Session, tube: Tube) {
    this.session = session;
    this.tube = tube;
  }

  /** Whether it is among the tube's wide waiters. */
  get linkedWide(): boolean {
    return this.widePosition >= 0;
  }
}

/**
 * Held jobs that a session has room for, once it has held so many: a worker that takes batches of a hundred fills and empties
 * its heap with each of them.
 */
const HELD_KEPT = 256;

/** How a session waits for a job. */
export const Waiting = {
  No: 0,
  /** On this shard only: a job is given to it at once, and its timer ends the wait. */
  Alone: 1,
  /** On several shards: it must be claimed first, and its timer only asks its acceptor to end the wait. */
  Shared: 2,
} as const;
export type Waiting = (typeof Waiting)[keyof typeof Waiting];

export class Session {
  /** Kept in the `holder` column of the jobs that it holds: it changes only while it holds none. */
  index: number;
  /** The tube in use, if it is on this shard. */
  used: Tube | undefined;
  /** Watched tubes on this shard. */
  readonly watches: Map<Tube, Watch> = new Map();
  /** Goes through them at the end of the session, which takes several steps if they are many. */
  unwatching: Iterator<Watch> | undefined;
  /** Jobs held here, by deadline. */
  readonly held: DeadlineHeap;
  /** The same jobs in the order in which they were reserved. */
  readonly heldInOrder: JobList;
  /** The job that a touch of all of them, done in slices, comes to next; NO_SLOT when none is under way. */
  nextToTouch: number = NO_SLOT;
  waiting: Waiting = Waiting.No;
  /** Order of waits on this shard: the smaller has waited longer. */
  waitOrder = 0;
  /** When the wait times out; Infinity for never. Monotonic ms. */
  timeoutAtMs: number = Number.POSITIVE_INFINITY;
  /** Links of the list of waiting sessions that watch many tubes. */
  nextWide: Session | undefined;
  previousWide: Session | undefined;
  /** Linked into its tubes' waiter lists (false while it waits as a wide session). */
  linkedInTubes = false;
  /** Watches that are not among their tube's wide waiters; none while it waits as a wide session. */
  unlinked: Watch[] = [];
  /** Its tubes with ready jobs in their order, once they were many; see ready-order.ts. */
  order: ReadyOrder | undefined;
  /** Its client can't send any more, so it never waits. */
  halfClosed = false;
  readonly timer: Timer<Session> = new Timer<Session>(this);

  constructor(index: number, jobs: JobTable) {
    this.index = index;
    this.held = new DeadlineHeap(jobs, HELD_KEPT);
    this.heldInOrder = new JobList(jobs);
  }

  /** The tube in use, for commands that come to this shard because it is here. */
  get tubeInUse(): Tube {
    assert(this.used !== undefined, "a command for the tube in use goes to its shard");
    return this.used;
  }

  /** Notes a watch that is not among its tube's wide waiters. */
  remember(watch: Watch): void {
    watch.widePosition = -1 - this.unlinked.length;
    // Most sessions have one, and an array that begins empty gets room for 17.
    if (this.unlinked.length === 0) this.unlinked = [watch];
    else this.unlinked.push(watch);
  }

  /** Forgets such a watch. */
  forget(watch: Watch): void {
    const position = -1 - watch.widePosition;
    assert(this.unlinked[position] === watch, "a watch is forgotten once");
    const last = this.unlinked.pop()!;
    if (last === watch) return;
    this.unlinked[position] = last;
    last.widePosition = watch.widePosition;
  }
}
