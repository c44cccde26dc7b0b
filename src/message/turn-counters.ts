// How a thread spends its turns, for whoever looks for the bottleneck: counted once a turn or sleep, never
// per command.

import type { RingReader } from "../ring/ring-reader.ts";
import { acceptorRole, binlogRole, Counter, countersOf, shardRole, type Topology } from "./topology.ts";

/** One thread's own side. */
export class TurnCounters {
  readonly #counters: Float64Array;
  readonly #rings: readonly RingReader[];
  /** How full the fullest ring was at the beginning of the turn, 0 to 1. */
  fill = 0;

  /** `rings` are those that the thread takes messages from. */
  constructor(counters: Float64Array, rings: readonly RingReader[]) {
    this.#counters = counters;
    this.#rings = rings;
  }

  /** A turn begins: notes how full the fullest ring is. */
  begin(): void {
    let fill = 0;
    for (let i = 0; i < this.#rings.length; i++) fill = Math.max(fill, this.#rings[i]!.fill);
    this.fill = fill;
  }

  /**
   * The turn took so many messages. In this order a reader in the middle of it sees a mean too low, never one
   * above the most.
   */
  end(messages: number): void {
    this.#add(Counter.Turns, 1);
    if (messages === 0) return;
    this.#add(Counter.Messages, messages);
    this.#add(Counter.BusyTurns, 1);
    if (this.fill > this.#counters[Counter.RingFillMax]!) this.#counters[Counter.RingFillMax] = this.fill;
    this.#add(Counter.RingFillSum, this.fill);
  }

  /** The thread goes to sleep. */
  slept(): void {
    this.#add(Counter.Sleeps, 1);
  }

  /** The thread rang for another: counts if that one slept. */
  rang(hasWoken: boolean): void {
    if (hasWoken) this.#add(Counter.Wakes, 1);
  }

  #add(counter: number, change: number): void {
    this.#counters[counter] = this.#counters[counter]! + change;
  }
}

/** What one thread has done since its start. */
export interface TurnCounts {
  /** Its name, as in `shard 0`. */
  readonly thread: string;
  readonly turns: number;
  /** Turns that took messages. */
  readonly busyTurns: number;
  /** Taken from its rings. */
  readonly messages: number;
  readonly sleeps: number;
  /** Other threads that it woke. */
  readonly wakes: number;
  /**
   * Share of its fullest ring that was waiting at the beginning of a busy turn, 0 to 1: on average, and at
   * most.
   */
  readonly ringFillMean: number;
  readonly ringFillMax: number;
  /** Connections that went to another acceptor because their tubes live there. */
  readonly moved: number;
}

/** The counts of all shards, of the acceptors of each thread, and of the binlog if there is one. */
export function turnCountsOf(topology: Topology): TurnCounts[] {
  const { shards, hosts, binlog } = topology;
  const counts = (thread: string, index: number): TurnCounts => {
    const counters = countersOf(topology, index);
    const busyTurns = counters[Counter.BusyTurns]!;
    return {
      thread,
      turns: counters[Counter.Turns]!,
      busyTurns,
      messages: counters[Counter.Messages]!,
      sleeps: counters[Counter.Sleeps]!,
      wakes: counters[Counter.Wakes]!,
      ringFillMean: busyTurns === 0 ? 0 : counters[Counter.RingFillSum]! / busyTurns,
      ringFillMax: counters[Counter.RingFillMax]!,
      moved: counters[Counter.MovedOut]!,
    };
  };
  return [
    ...Array.from({ length: shards }, (_, shard) => counts(`shard ${shard}`, shardRole(shard))),
    ...hosts
      .filter(({ acceptors }) => acceptors.length > 0)
      .map(({ acceptors }) =>
        counts(`acceptor ${acceptors.join(", ")}`, acceptorRole(topology, acceptors[0]!)),
      ),
    ...(binlog === undefined ? [] : [counts("binlog", binlogRole(topology))]),
  ];
}
