// The open connections of one acceptor, by slot. A slot is taken until every shard has forgotten
// its connection and the socket is gone.

import { SESSIONS_PER_ACCEPTOR_MAX } from "../../message/topology.ts";
import type { ConnectionFacts } from "../state/connection-facts.ts";
import type { Connection } from "./connection.ts";

export class ConnectionSlots {
  readonly connections: (Connection | undefined)[] = [];
  readonly #free: number[] = [];

  /** Slots below `first` are not given to connections. */
  constructor(first: number) {
    for (let slot = 0; slot < first; slot++) this.connections.push(undefined);
  }

  /**
   * Returns a free slot, to be filled before the next one is asked for. Undefined if all are taken.
   */
  take(): number | undefined {
    const slot = this.#free.pop() ?? this.connections.length;
    return slot < SESSIONS_PER_ACCEPTOR_MAX ? slot : undefined;
  }

  /** Frees the slot of a connection that no shard knows any more. */
  vacate(slot: number): void {
    this.connections[slot] = undefined;
    this.#free.push(slot);
  }

  /** Returns a description of every open connection. */
  facts(): ConnectionFacts[] {
    return this.#open().map(({ facts }) => facts);
  }

  /** Ends one connection after its commands in flight are answered. Returns false if it is gone. */
  endOne(slot: number, serial: number): boolean {
    const connection = this.connections[slot];
    if (connection === undefined || connection.shutdown.isDead || connection.serial !== serial) return false;
    connection.endWhenIdle("admin");
    return true;
  }

  /** Ends all connections after their commands in flight. */
  endAll(): void {
    for (const connection of this.#open()) connection.endWhenIdle("stop");
  }

  #open(): Connection[] {
    return this.connections.filter((each) => each !== undefined && !each.shutdown.isDead) as Connection[];
  }
}
