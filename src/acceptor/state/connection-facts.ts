// Facts about a connection, for monitoring.

import type { EndReason } from "../../message/acceptor-counts.ts";

/** Watched tubes listed for each connection. */
export const NAMED_TUBES_MAX = 20;

export interface ConnectionFacts {
  readonly slot: number;
  /** Distinguishes this connection from others that used the same slot. */
  readonly serial: number;
  readonly descriptor: number;
  /** Address and port of the client, if they were recorded: see ConnectionContext. */
  readonly peer: string | undefined;
  /** The name that the client gave itself. */
  readonly name: string | undefined;
  /** Index of its listener among those of the server, if it was recorded: see ConnectionContext. */
  readonly listener: number | undefined;
  /** In monotonic ms. */
  readonly openedAtMs: number;
  /**
   * When bytes were last sent to the client or, before that, when it arrived; in monotonic ms.
   */
  readonly answeredAtMs: number;
  readonly uses: string;
  /** The first of the watched tubes, and the number of all. */
  readonly watches: readonly string[];
  readonly watchCount: number;
  readonly isProducer: boolean;
  readonly isWorker: boolean;
  /** Whether it is executing a command that may wait for a job. */
  readonly waits: boolean;
  /** Bytes received but not processed, and bytes of replies not sent. */
  readonly bytesIn: number;
  readonly bytesOut: number;
}

// The most recently closed connections and the reasons, for operators who look for a client.

/** Connections kept by each acceptor, at about 200 bytes each plus tube names. */
const KEPT_MAX = 1000;
/** Watched tubes recorded for each closed connection. */
const CLOSED_TUBES_MAX = 3;

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
    const watches = facts.watches.slice(0, CLOSED_TUBES_MAX);
    this.#kept[this.#next] = { ...facts, watches, reason, closedAtMs };
    this.#next = (this.#next + 1) % KEPT_MAX;
  }

  /** The closed connections, latest first. */
  get list(): ClosedConnection[] {
    return [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)].reverse();
  }
}
