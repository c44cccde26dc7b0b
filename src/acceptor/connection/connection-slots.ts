// The open connections of one acceptor, by slot. A slot is taken until every shard has forgotten
// its connection and the socket is gone.

import { SESSIONS_PER_ACCEPTOR_MAX } from "../../message/topology.ts";
import { WorkerNames } from "../../ring/worker-names.ts";
import type { ConnectionFacts } from "../state/connection-facts.ts";
import type { Connection } from "./connection.ts";

export class ConnectionSlots {
  readonly connections: (Connection | undefined)[] = [];
  readonly #free: number[] = [];

  /** The names by which shards know the workers, by slot. */
  readonly #names: WorkerNames;

  /** Slots below `first` are not given to connections. */
  constructor(first: number, names: SharedArrayBuffer) {
    this.#names = new WorkerNames(names);
    for (let slot = 0; slot < first; slot++) this.connections.push(undefined);
  }

  /**
   * Returns a free slot, or undefined if all are taken. The caller fills it before it takes
   * another. A worker without a name is named after its slot.
   */
  take(name = ""): number | undefined {
    const slot = this.#free.pop() ?? this.connections.length;
    if (slot >= SESSIONS_PER_ACCEPTOR_MAX) return undefined;
    this.#names.set(slot, name);
    return slot;
  }

  /** Changes the name by which shards know the worker in a slot. */
  nameWorker(slot: number, name: string): void {
    this.#names.set(slot, name);
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
