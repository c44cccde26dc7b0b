// The last connections that have ended, and why: for whoever asks where a client has gone.

import type { EndReason } from "../../message/end-reason.ts";
import type { ConnectionFacts } from "./connection-facts.ts";

/** Kept by each acceptor: some 200 bytes each, with names of tubes. */
const KEPT_MAX = 1000;
/** Tubes that are named of one that has ended. */
const NAMED_TUBES_MAX = 3;

export interface ClosedConnection extends ConnectionFacts {
  /** Monotonic ms. */
  readonly closedAtMs: number;
  readonly reason: EndReason;
}

export class ClosedConnections {
  /** As a ring: the oldest is at `#next` once it is full. */
  readonly #kept: ClosedConnection[] = [];
  #next = 0;

  note(facts: ConnectionFacts, reason: EndReason, closedAtMs: number): void {
    const watches = facts.watches.slice(0, NAMED_TUBES_MAX);
    this.#kept[this.#next] = { ...facts, watches, reason, closedAtMs };
    this.#next = (this.#next + 1) % KEPT_MAX;
  }

  /** The last to end is the first. */
  get list(): ClosedConnection[] {
    return [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)].reverse();
  }
}
