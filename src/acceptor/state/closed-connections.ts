// The most recently closed connections and the reasons, for operators who look for a client.

import type { EndReason } from "../../message/end-reason.ts";
import type { ConnectionFacts } from "./connection-facts.ts";

/** Connections kept by each acceptor, at about 200 bytes each plus tube names. */
const KEPT_MAX = 1000;
/** Watched tubes recorded for each closed connection. */
const NAMED_TUBES_MAX = 3;

export interface ClosedConnection extends ConnectionFacts {
  /** In monotonic ms. */
  readonly closedAtMs: number;
  readonly reason: EndReason;
}

export class ClosedConnections {
  /** A ring buffer: once it is full, the oldest entry is at `#next`. */
  readonly #kept: ClosedConnection[] = [];
  #next = 0;

  note(facts: ConnectionFacts, reason: EndReason, closedAtMs: number): void {
    const watches = facts.watches.slice(0, NAMED_TUBES_MAX);
    this.#kept[this.#next] = { ...facts, watches, reason, closedAtMs };
    this.#next = (this.#next + 1) % KEPT_MAX;
  }

  /** The closed connections, latest first. */
  get list(): ClosedConnection[] {
    return [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)].reverse();
  }
}
