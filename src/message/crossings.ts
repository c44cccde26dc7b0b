// Counts messages that came from another thread: what two threads cost that one would not. Counted
// once per ring and turn, never per command.

import {
  acceptorRole,
  Counter,
  countersOf,
  portBell,
  portRole,
  shardRole,
  type Topology,
  threadOfShard,
} from "./topology.ts";

export class Crossings {
  readonly #counters: Float64Array;
  /** 1 for each ring whose writer is another thread. */
  readonly #isForeign: Uint8Array;

  private constructor(counters: Float64Array, isForeign: readonly boolean[]) {
    this.#counters = counters;
    this.#isForeign = Uint8Array.from(isForeign, Number);
  }

  /** Counts what a shard takes from each port. */
  static ofShard(topology: Topology, shard: number): Crossings {
    const thread = threadOfShard(topology, shard);
    const isForeign = topology.requests.map((_, port) => portBell(topology, port) !== thread);
    return new Crossings(countersOf(topology, shardRole(shard)), isForeign);
  }

  /** Counts what a port takes from each shard. */
  static ofPort(topology: Topology, port: number): Crossings {
    const thread = portBell(topology, port);
    const isForeign = topology.responses[port]!.map((_, shard) => threadOfShard(topology, shard) !== thread);
    return new Crossings(countersOf(topology, portRole(topology, port)), isForeign);
  }

  /** Counts the messages that a turn took from one ring. Returns how many they were. */
  count(ring: number, taken: number): number {
    if (taken > 0 && this.#isForeign[ring] === 1)
      this.#counters[Counter.Crossed] = this.#counters[Counter.Crossed]! + taken;
    return taken;
  }
}

/** Returns the messages from other threads that the acceptors of one thread have taken. */
export function crossedTo(topology: Topology, acceptors: readonly number[]): number {
  return acceptors.reduce(
    (sum, acceptor) => sum + countersOf(topology, acceptorRole(topology, acceptor))[Counter.Crossed]!,
    0,
  );
}
