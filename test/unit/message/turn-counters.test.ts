// Tests of the counts of each thread: every counter has its place in them, and the messages from
// other threads are those of all acceptors of a thread.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  acceptorRole,
  binlogRole,
  Counter,
  countersOf,
  createTopology,
  shardRole,
  type Topology,
  type TopologyOptions,
} from "../../../src/message/topology.ts";
import { TurnCounters, type TurnCounts, turnCountsOf } from "../../../src/message/turn-counters.ts";
import { createRing, RingReader, RingWriter } from "../../../src/ring/ring.ts";
import { LogWord } from "../../../src/ring/shared-words.ts";

const RING_BYTES = 4096;

const topologyWith = (more: Partial<TopologyOptions>): Topology =>
  createTopology({ shards: 2, acceptors: 2, jobBytesMax: 65_535, ringBytes: RING_BYTES, ...more });

/** Sets the counters of a role to numbers that begin with `base`, and returns what they mean. */
function fill(topology: Topology, role: number, base: number, thread: string): TurnCounts {
  const counters = countersOf(topology, role);
  const names = [
    "Turns",
    "BusyTurns",
    "Messages",
    "Crossed",
    "Sleeps",
    "Wakes",
    "RingFillMax",
    "MovedOut",
  ] as const;
  for (const [at, name] of names.entries()) counters[Counter[name]] = base + at;
  counters[Counter.RingFillSum] = 3 * (base + 1);
  const [turns, busyTurns, messages, crossed] = [base, base + 1, base + 2, base + 3];
  return {
    ...{ thread, turns, busyTurns, messages, crossed, sleeps: base + 4, wakes: base + 5 },
    ...{ ringFillMean: 3, ringFillMax: base + 6, moved: base + 7 },
  };
}

describe("the counts of threads", () => {
  it("are those of each shard and acceptor, if each has a thread", () => {
    const topology = topologyWith({ placement: "apart" });
    const expected = [
      ...[0, 1].map((shard) => fill(topology, shardRole(shard), 100 * (shard + 1), `shard ${shard}`)),
      ...[0, 1].map((at) => fill(topology, acceptorRole(topology, at), 1000 * (at + 1), `acceptor ${at}`)),
    ];
    assert.deepEqual(turnCountsOf(topology), expected);
  });

  it("of a thread with two acceptors are at the first one, with the messages that both took", () => {
    const topology = topologyWith({ placement: "together", threads: 1 });
    const both = fill(topology, acceptorRole(topology, 0), 100, "acceptor 0, 1");
    fill(topology, acceptorRole(topology, 1), 500, "");
    assert.deepEqual(turnCountsOf(topology).at(-1), { ...both, crossed: 103 + 503 });
  });

  it("of the log count its messages as those of other threads, unless it shares the shards' thread", () => {
    for (const isResident of [false, true]) {
      const binlog = { repliesWaitFor: LogWord.Written, segmentBytes: 1 << 20, isResident };
      const topology = topologyWith({ placement: "together", threads: 1, binlog });
      const counts = fill(topology, binlogRole(topology), 100, "binlog");
      const found = turnCountsOf(topology).at(-1);
      assert.deepEqual(found, { ...counts, crossed: isResident ? 0 : counts.messages });
    }
  });

  it("have no mean of rings before a turn with messages", () => {
    for (const { ringFillMean } of turnCountsOf(topologyWith({}))) assert.equal(ringFillMean, 0);
  });
});

describe("the counters of a thread", () => {
  const claim = (writer: RingWriter, bytes: number): void => {
    writer.claim(bytes);
    writer.publish();
  };

  it("count turns with messages and without, by the fullest ring at their beginning", () => {
    const rings = [createRing(RING_BYTES), createRing(RING_BYTES)];
    const [first, second] = rings.map((ring) => new RingWriter(ring)) as [RingWriter, RingWriter];
    const counters = new Float64Array(Counter.Commands);
    const turns = new TurnCounters(
      counters,
      rings.map((ring) => new RingReader(ring)),
    );
    const counted = (): number[] =>
      [Counter.Turns, Counter.BusyTurns, Counter.Messages, Counter.RingFillSum, Counter.RingFillMax].map(
        (counter) => counters[counter]!,
      );
    claim(first, 1024);
    claim(second, 512);
    turns.begin();
    turns.end(0);
    assert.deepEqual(counted(), [1, 0, 0, 0, 0], "a turn without messages says nothing of rings");
    turns.begin();
    turns.end(5);
    assert.deepEqual(counted(), [2, 1, 5, 0.25, 0.25]);
    claim(second, 1024);
    turns.begin();
    turns.end(2);
    assert.deepEqual(counted(), [3, 2, 7, 0.625, 0.375]);
    turns.fill = 0.125;
    turns.end(1);
    assert.deepEqual(counted(), [4, 3, 8, 0.75, 0.375], "the maximum stays");
  });

  it("count sleeps, and only the rings that woke somebody", () => {
    const counters = new Float64Array(Counter.Commands);
    const turns = new TurnCounters(counters, []);
    turns.slept();
    turns.slept();
    turns.woke();
    assert.deepEqual([counters[Counter.Sleeps], counters[Counter.Wakes]], [2, 1]);
  });
});
