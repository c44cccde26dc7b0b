// Counters of how a thread spends its turns, for finding bottlenecks. Counted once per turn or
// sleep, never per command.

import type { RingReader } from "../ring/ring.ts";
import { acceptorRole, binlogRole, Counter, countersOf, shardRole, type Topology } from "./topology.ts";

/** The counters of one thread. */
export class TurnCounters {
  readonly #counters: Float64Array;
  readonly #rings: readonly RingReader[];
  /** How full the fullest ring was at the beginning of the turn, 0 to 1. */
  fill = 0;

  /** `rings` are those from which the thread takes messages. */
  constructor(counters: Float64Array, rings: readonly RingReader[]) {
    this.#counters = counters;
    this.#rings = rings;
  }

  /** Starts a turn: notes how full the fullest ring is. */
  begin(): void {
    let fill = 0;
    for (let i = 0; i < this.#rings.length; i++) fill = Math.max(fill, this.#rings[i]!.fill);
    this.fill = fill;
  }

  /**
   * Ends a turn that took `messages`. In this order, a concurrent reader may see a mean that is too
   * low, but never one above the maximum.
   */
  end(messages: number): void {
    const counters = this.#counters;
    counters[Counter.Turns]! += 1;
    if (messages === 0) return;
    counters[Counter.Messages]! += messages;
    counters[Counter.BusyTurns]! += 1;
    if (this.fill > counters[Counter.RingFillMax]!) counters[Counter.RingFillMax] = this.fill;
    counters[Counter.RingFillSum]! += this.fill;
  }

  /** Notes that the thread goes to sleep. */
  slept(): void {
    this.#counters[Counter.Sleeps]! += 1;
  }

  /** Notes that the thread woke another one. */
  woke(): void {
    this.#counters[Counter.Wakes]! += 1;
  }
}

/** Activity of one thread since its start. */
export interface TurnCounts {
  /** Its name, such as `shard 0`. */
  readonly thread: string;
  readonly turns: number;
  /** Turns that took messages. */
  readonly busyTurns: number;
  /** Messages taken from its rings. */
  readonly messages: number;
  /** Those of them that another thread wrote. */
  readonly crossed: number;
  readonly sleeps: number;
  /** Threads that it woke. */
  readonly wakes: number;
  /** Fill of its fullest ring at the beginning of a busy turn, 0 to 1: mean and maximum. */
  readonly ringFillMean: number;
  readonly ringFillMax: number;
  /** Connections that moved to another acceptor, near the shard of their tubes. */
  readonly moved: number;
}

/**
 * Returns the counts of all shards, of the acceptors of each thread, and of the binlog if there is
 * one.
 */
export function turnCountsOf(topology: Topology): TurnCounts[] {
  const { shards, threads, binlog } = topology;
  const counts = (thread: string, index: number, crossed?: number): TurnCounts => {
    const counters = countersOf(topology, index);
    const busyTurns = counters[Counter.BusyTurns]!;
    return {
      thread,
      turns: counters[Counter.Turns]!,
      busyTurns,
      messages: counters[Counter.Messages]!,
      crossed: crossed ?? counters[Counter.Crossed]!,
      sleeps: counters[Counter.Sleeps]!,
      wakes: counters[Counter.Wakes]!,
      ringFillMean: busyTurns === 0 ? 0 : counters[Counter.RingFillSum]! / busyTurns,
      ringFillMax: counters[Counter.RingFillMax]!,
      moved: counters[Counter.MovedOut]!,
    };
  };
  return [
    ...Array.from({ length: shards }, (_, shard) => counts(`shard ${shard}`, shardRole(shard))),
    ...threads
      .filter(({ acceptors }) => acceptors.length > 0)
      .map(({ acceptors }) =>
        counts(
          `acceptor ${acceptors.join(", ")}`,
          acceptorRole(topology, acceptors[0]!),
          crossedTo(topology, acceptors),
        ),
      ),
    ...(binlog === undefined ? [] : [binlogCounts(topology, counts("binlog", binlogRole(topology)))]),
  ];
}

/** Returns the messages from other threads that the acceptors of one thread have taken. */
function crossedTo(topology: Topology, acceptors: readonly number[]): number {
  return acceptors.reduce(
    (sum, acceptor) => sum + countersOf(topology, acceptorRole(topology, acceptor))[Counter.Crossed]!,
    0,
  );
}

/**
 * Adds `crossed` to the counts of the log: only shards write to it, either all in its thread or all
 * in others.
 */
function binlogCounts({ binlog }: Topology, counts: TurnCounts): TurnCounts {
  return { ...counts, crossed: binlog!.thread === undefined ? counts.messages : 0 };
}
