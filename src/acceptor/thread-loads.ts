// Load of the threads with acceptors: tells whether one of them can take one more connection.

import {
  acceptorRole,
  Counter,
  countersOf,
  SESSIONS_PER_ACCEPTOR_MAX,
  type Topology,
  threadOfAcceptor,
} from "../message/topology.ts";
import type { Loads } from "./migration/connection-migrator.ts";

/** Minimum and maximum interval between two readings that show the current load, in ms. */
const WINDOW_MS_MIN = 100;
const WINDOW_MS_MAX = 2000;
/** A thread that sleeps for this share of the time has capacity to spare. */
const SPARE_SHARE = 0.25;
/** Shares of sleep that differ by less count as equal. */
const ABOUT = 0.1;
/**
 * Connections beyond which an acceptor takes no more from others, which leaves slots for new
 * clients.
 */
const OPEN_MAX = SESSIONS_PER_ACCEPTOR_MAX / 2;

export class ThreadLoads implements Loads {
  readonly #threadOf: readonly number[];
  /** By acceptor. */
  readonly #counters: readonly Float64Array[];
  readonly #acceptors: readonly (readonly number[])[];
  readonly #own: number;
  /**
   * By thread: the time it had slept at the last reading, and its share of sleep between the last
   * two.
   */
  readonly #idleMs: number[];
  readonly #spare: number[];
  #readAtMs = 0;

  constructor(topology: Topology, acceptor: number) {
    const { threads, acceptors } = topology;
    const all = Array.from({ length: acceptors }, (_, each) => each);
    this.#threadOf = all.map((each) => threadOfAcceptor(topology, each));
    this.#counters = all.map((each) => countersOf(topology, acceptorRole(topology, each)));
    this.#acceptors = threads.map((thread) => thread.acceptors);
    this.#own = this.#threadOf[acceptor]!;
    this.#idleMs = threads.map(() => 0);
    this.#spare = threads.map(() => 0);
  }

  /**
   * Returns whether an acceptor can take one more connection. Its thread must have capacity to
   * spare, or be no busier than this one: otherwise a hot tube would pull all work to one core. The
   * comparison of connections keeps two threads that exchange connections balanced.
   */
  mayTakeOne(acceptor: number, nowMs: number): boolean {
    const thread = this.#threadOf[acceptor]!;
    if (this.#counters[acceptor]![Counter.TakesMoved] !== 1) return false;
    if (!this.#isFresh(nowMs) || this.#openOf(acceptor) >= OPEN_MAX) return false;
    const [spare, ownSpare] = [this.#spare[thread]!, this.#spare[this.#own]!];
    if (spare >= SPARE_SHARE) return true;
    return spare >= ownSpare - ABOUT && this.#openAt(thread) <= this.#openAt(this.#own);
  }

  /** Takes a new reading if it is time. Returns whether the last reading is current. */
  #isFresh(nowMs: number): boolean {
    const windowMs = nowMs - this.#readAtMs;
    if (windowMs < WINDOW_MS_MIN) return true;
    this.#readAtMs = nowMs;
    for (const [thread, acceptors] of this.#acceptors.entries()) {
      if (acceptors.length === 0) continue;
      const counters = this.#counters[acceptors[0]!]!;
      const sinceMs = counters[Counter.IdleSinceMs]!;
      const idleMs = counters[Counter.IdleMs]! + (sinceMs > 0 ? Math.max(0, nowMs - sinceMs) : 0);
      this.#spare[thread] = (idleMs - this.#idleMs[thread]!) / windowMs;
      this.#idleMs[thread] = idleMs;
    }
    return windowMs <= WINDOW_MS_MAX;
  }

  #openAt(thread: number): number {
    return this.#acceptors[thread]!.reduce((open, acceptor) => open + this.#openOf(acceptor), 0);
  }

  #openOf(acceptor: number): number {
    const counters = this.#counters[acceptor]!;
    return counters[Counter.Connections]! + counters[Counter.MovedIn]! - counters[Counter.MovedOut]!;
  }
}
