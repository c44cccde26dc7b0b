// Load of the threads with acceptors: tells whether one of them can take one more connection.

import {
  acceptorRole,
  Counter,
  countersOf,
  hostOfAcceptor,
  SESSIONS_PER_ACCEPTOR_MAX,
  type Topology,
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

export class HostLoads implements Loads {
  readonly #hostOf: readonly number[];
  /** By acceptor. */
  readonly #counters: readonly Float64Array[];
  readonly #acceptors: readonly (readonly number[])[];
  readonly #own: number;
  /**
   * By host: the time it had slept at the last reading, and its share of sleep between the last
   * two.
   */
  readonly #idleMs: number[];
  readonly #spare: number[];
  #readAtMs = 0;

  constructor(topology: Topology, acceptor: number) {
    const { hosts, acceptors } = topology;
    const all = Array.from({ length: acceptors }, (_, each) => each);
    this.#hostOf = all.map((each) => hostOfAcceptor(topology, each));
    this.#counters = all.map((each) => countersOf(topology, acceptorRole(topology, each)));
    this.#acceptors = hosts.map((host) => host.acceptors);
    this.#own = this.#hostOf[acceptor]!;
    this.#idleMs = hosts.map(() => 0);
    this.#spare = hosts.map(() => 0);
  }

  /**
   * Returns whether an acceptor can take one more connection. Its thread must have capacity to
   * spare, or be no busier than this one: otherwise a hot tube would pull all work to one core. The
   * comparison of connections keeps two threads that exchange connections balanced.
   */
  mayTakeOne(acceptor: number, nowMs: number): boolean {
    const host = this.#hostOf[acceptor]!;
    if (this.#counters[acceptor]![Counter.TakesMoved] !== 1) return false;
    if (!this.#isFresh(nowMs) || this.#openOf(acceptor) >= OPEN_MAX) return false;
    const [spare, ownSpare] = [this.#spare[host]!, this.#spare[this.#own]!];
    if (spare >= SPARE_SHARE) return true;
    return spare >= ownSpare - ABOUT && this.#openAt(host) <= this.#openAt(this.#own);
  }

  /** Takes a new reading if it is time. Returns whether the last reading is current. */
  #isFresh(nowMs: number): boolean {
    const windowMs = nowMs - this.#readAtMs;
    if (windowMs < WINDOW_MS_MIN) return true;
    this.#readAtMs = nowMs;
    for (const [host, acceptors] of this.#acceptors.entries()) {
      if (acceptors.length === 0) continue;
      const counters = this.#counters[acceptors[0]!]!;
      const sinceMs = counters[Counter.IdleSinceMs]!;
      const idleMs = counters[Counter.IdleMs]! + (sinceMs > 0 ? Math.max(0, nowMs - sinceMs) : 0);
      this.#spare[host] = (idleMs - this.#idleMs[host]!) / windowMs;
      this.#idleMs[host] = idleMs;
    }
    return windowMs <= WINDOW_MS_MAX;
  }

  #openAt(host: number): number {
    return this.#acceptors[host]!.reduce((open, acceptor) => open + this.#openOf(acceptor), 0);
  }

  #openOf(acceptor: number): number {
    const counters = this.#counters[acceptor]!;
    return counters[Counter.Connections]! + counters[Counter.MovedIn]! - counters[Counter.MovedOut]!;
  }
}
