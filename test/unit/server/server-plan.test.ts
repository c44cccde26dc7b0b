// Tests of the plan of a server: each option that the threads depend on reaches it.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Topology } from "../../../src/message/topology.ts";
import { DATA_OFFSET } from "../../../src/ring/ring.ts";
import { LogWord } from "../../../src/ring/shared-words.ts";
import { type Options, parseOptions } from "../../../src/server/options/options.ts";
import { placementFor, processFactsOf, topologyFor } from "../../../src/server/server-plan.ts";

const TOGETHER = ["--shards", "3", "--acceptors", "2", "--placement", "together"];
const ALONE = ["--shards", "1", "--acceptors", "1", "--placement", "together"];
const LOG = ["-b", "/b"];
const GROUP = [...LOG, "--replicate", "nats://a:1/g"];

function optionsOf(flags: readonly string[]): Options {
  const options = parseOptions(flags, "runnerbean", {});
  assert.ok(!("exitCode" in options), JSON.stringify(options));
  return options;
}

function planOf(...flags: readonly string[]): Topology {
  const options = optionsOf(flags);
  return topologyFor(options, placementFor(options));
}

describe("the plan of a server", () => {
  it("has as many roles as the options say, and a port for HTTP if there is HTTP", () => {
    const { shards, acceptors, ports } = planOf(...TOGETHER);
    assert.deepEqual([shards, acceptors, ports], [3, 2, 2]);
    assert.equal(planOf(...TOGETHER, "--http", "127.0.0.1:0").ports, 3);
  });

  it("has the threads that the placement says", () => {
    const apart = planOf(...TOGETHER, "--placement", "apart");
    assert.deepEqual(apart.threads, [
      ...[0, 1, 2].map((shard) => ({ acceptors: [], shards: [shard] })),
      ...[0, 1].map((acceptor) => ({ acceptors: [acceptor], shards: [] })),
    ]);
    assert.deepEqual(planOf(...TOGETHER, "--threads", "2").threads, [
      { acceptors: [0], shards: [0, 2] },
      { acceptors: [1], shards: [1] },
    ]);
    assert.deepEqual(planOf(...TOGETHER, "--threads", "1").threads, [
      { acceptors: [0, 1], shards: [0, 1, 2] },
    ]);
  });

  it("lets connections move only between threads, unless the operator forbids it", () => {
    const moves = planOf(...TOGETHER, "--threads", "2").migrationRings;
    assert.deepEqual(
      moves.map((row) => row.map((ring) => ring !== undefined)),
      [
        [false, true],
        [true, false],
      ],
    );
    for (const flags of [
      ["--threads", "2", "--no-migration"],
      ["--threads", "1"],
      ["--placement", "apart"],
    ])
      assert.deepEqual(planOf(...TOGETHER, ...flags).migrationRings, [], flags.join(" "));
  });

  it("has the commands and the size of jobs that the options say", () => {
    const { protocol, jobBytesMax } = planOf(...ALONE, "--protocol", "strict", "-z", "777");
    assert.deepEqual([protocol, jobBytesMax], ["strict", 777]);
    assert.deepEqual([planOf(...ALONE).protocol, planOf(...ALONE).jobBytesMax], ["extended", 65_535]);
  });

  it("has a log with -b only; replies wait until it is synced with -f 0, else until it is written", () => {
    assert.equal(planOf(...ALONE).binlog, undefined);
    const waitsFor = (...flags: string[]): number =>
      planOf(...ALONE, ...LOG, ...flags).binlog!.repliesWaitFor;
    assert.equal(waitsFor("-f", "0"), LogWord.Synced);
    for (const flags of [[], ["-f", "1"], ["-F"]]) assert.equal(waitsFor(...flags), LogWord.Written);
    const ringBytes = (...flags: string[]): number =>
      planOf(...ALONE, ...LOG, ...flags).binlog!.rings[0]!.byteLength - DATA_OFFSET;
    assert.deepEqual(
      [ringBytes(), ringBytes("-s", "1M"), ringBytes("-s", "2M")],
      [1 << 20, 1 << 18, 1 << 19],
    );
  });

  it("has the log in the only thread that serves, unless it is wanted apart", () => {
    const threadOf = (...flags: string[]): number | undefined => planOf(...flags, ...LOG).binlog!.thread;
    assert.equal(threadOf(...ALONE), 0);
    assert.equal(threadOf(...ALONE, "--log-placement", "together"), 0);
    assert.equal(threadOf(...ALONE, "--log-placement", "apart"), undefined);
    assert.equal(threadOf(...TOGETHER, "--threads", "2"), undefined);
    assert.equal(planOf(...ALONE, ...GROUP).binlog!.thread, undefined);
  });

  it("is refused if the log shall share a thread that it can't share", () => {
    const together = ["--log-placement", "together"];
    for (const flags of [
      [...TOGETHER, "--threads", "2", ...LOG],
      [...ALONE, ...GROUP],
      [...ALONE, ...LOG, "--placement", "apart"],
    ])
      assert.throws(() => planOf(...flags, ...together), /--log-placement together: the log can share/);
    // Without a log there is nothing to place.
    assert.equal(planOf(...TOGETHER, "--threads", "2", ...together).binlog, undefined);
  });

  it("has a group with --replicate only, whose log replies wait for if they shall", () => {
    assert.equal(planOf(...ALONE, ...LOG).binlog!.group, undefined);
    const waits = (...flags: string[]): boolean =>
      planOf(...ALONE, ...GROUP, ...flags).binlog!.group!.repliesWait;
    assert.ok(waits());
    assert.ok(waits("--replicate-wait", "standby"));
    assert.ok(!waits("--replicate-wait", "nothing"));
  });
});

describe("the facts of a process", () => {
  it("are those of beanstalkd 1.12 only if asked for, with the size of the log's files", () => {
    const bareWith = (...flags: string[]): boolean => processFactsOf(optionsOf(flags)).bareFacts;
    assert.deepEqual(
      [bareWith(), bareWith("--compat", "1.13"), bareWith("--compat", "1.12")],
      [false, false, true],
    );
    assert.equal(processFactsOf(optionsOf(["-s", "64K"])).binlogMaxBytes, 65_536);
    assert.equal(processFactsOf(optionsOf([])).pid, process.pid);
  });

  it("have an id that no parser reads as a number, of its own for each process", () => {
    const ids = Array.from({ length: 2000 }, () => processFactsOf(optionsOf([])).instanceId);
    for (const id of ids) assert.ok(/^[0-9a-f]{16}$/.test(id) && Number.isNaN(Number(id)), id);
    assert.equal(new Set(ids).size, ids.length);
  });
});
