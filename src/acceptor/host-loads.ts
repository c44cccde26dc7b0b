// How busy the threads with acceptors are: whether one of them can take one more connection.

import {
  acceptorRole,
  Counter,
  countersOf,
  hostOfAcceptor,
  SESSIONS_PER_ACCEPTOR_MAX,
  type Topology,
} from "../message/topology.ts";
import type { Loads } from "./migration/connection-migrator.ts";

/** Readings are this far apart at least, and at most, to tell what a thread does now, ms. */
const WINDOW_MS_MIN = 100;
const WINDOW_MS_MAX = 2000;
/** A thread that sleeps for this share of the time has time to spare. */
const SPARE_SHARE = 0.25;
/** Shares of sleep that are about the same. */
const ABOUT = 0.1;
/** Slots are left for clients that connect. */
const OPEN_MAX = SESSIONS_PER_ACCEPTOR_MAX / 2;

export class HostLoads implements Loads {
  readonly #hostOf: readonly number[];
  /** Of each acceptor. */
  readonly #counters: readonly Float64Array[];
  readonly #acceptors: readonly (readonly number[])[];
  readonly #own: number;
  /** Of each host: how long it had slept at the last reading, and the share of the time since the one before. */
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
   * It must have time to spare, or not more to do than this thread: otherwise a hot tube would pull all work to one core.
   * With connections that go both ways both threads keep as many as they have.
   */
  mayTakeOne(acceptor: number, nowMs: number): boolean {
    const host = this.#hostOf[acceptor]!;
    if (this.#counters[acceptor]![Counter.TakesMoved] !== 1) return false;
    if (!this.#isFresh(nowMs) || this.#openOf(acceptor) >= OPEN_MAX) return false;
    const [spare, ownSpare] = [this.#spare[host]!, this.#spare[this.#own]!];
    if (spare >= SPARE_SHARE) return true;
    return spare >= ownSpare - ABOUT && this.#openAt(host) <= this.#openAt(this.#own);
  }

  /** Reads anew when it is time. Returns whether what was read tells of now. */
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
