import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createTopology, threadOfAcceptor, threadOfShard } from "../../../../src/message/topology.ts";
import { cgroupPath, coresWithin } from "../../../../src/server/options/thread-settings.ts";
import { choosePlacement } from "../../../../src/server/server-plan.ts";

const auto = (shards: number, acceptors: number, cores: number): string =>
  choosePlacement({ shards, acceptors, placement: "auto" }, cores).placement;

describe("placement", () => {
  it("puts shards beside acceptors unless each has a core and one is free", () => {
    assert.equal(auto(1, 1, 1), "together");
    assert.equal(auto(1, 1, 2), "together");
    assert.equal(auto(1, 1, 3), "apart");
    assert.equal(auto(4, 1, 4), "together");
    assert.equal(auto(2, 5, 8), "apart");
  });

  it("follows the options, and reports the choice and the reason", () => {
    const asked = choosePlacement({ shards: 7, acceptors: 3, placement: "apart" }, 2);
    assert.deepEqual(asked, {
      placement: "apart",
      threads: 10,
      cores: 2,
      hasResidentLog: false,
      why: "apart in 10 threads (as asked)",
    });
    const chosen = choosePlacement({ shards: 1, acceptors: 1, placement: "auto" }, 1);
    assert.equal(chosen.why, "together in 1 thread (1 usable core)");
  });

  it("puts the log into the only serving thread, but not in a group", () => {
    const log = (placement: "together" | "apart" | "auto", more: object = {}): boolean => {
      const options = { placement, isInGroup: false, ...more };
      return choosePlacement({ shards: 1, acceptors: 1, placement: "auto", log: options }, 2).hasResidentLog;
    };
    assert.equal(log("auto"), true);
    assert.equal(log("apart"), false);
    assert.equal(log("together"), true);
    assert.equal(log("auto", { isInGroup: true }), false);
    assert.equal(log("together", { isInGroup: true }), false);
    const options = { placement: "auto", isInGroup: false } as const;
    const chosen = (acceptors: number, cores: number, threads?: number): string =>
      choosePlacement({ shards: 1, acceptors, placement: "together", threads, log: options }, cores).why;
    assert.equal(chosen(1, 2), "together in 1 thread, with the log (as asked)");
    assert.equal(chosen(2, 2), "together in 1 thread, with the log (as asked)");
    assert.equal(chosen(2, 2, 2), "together in 2 threads (as asked)");
    assert.equal(
      choosePlacement({ shards: 1, acceptors: 1, placement: "auto", log: options }, 4).why,
      "apart in 2 threads (4 usable cores)",
    );
  });

  it("leaves a core free by default, and never has more threads than acceptors", () => {
    const threads = (acceptors: number, cores: number, given?: number): number =>
      choosePlacement({ shards: 2, acceptors, placement: "together", threads: given }, cores).threads;
    assert.equal(threads(3, 1), 1);
    assert.equal(threads(3, 2), 1);
    assert.equal(threads(3, 3), 2);
    assert.equal(threads(3, 64), 3);
    assert.equal(threads(3, 1, 2), 2);
    const given = choosePlacement({ shards: 1, acceptors: 1, placement: "auto", threads: 1 }, 64);
    assert.equal(given.placement, "together");
  });

  it("spreads any roles over any number of threads, each with an acceptor", () => {
    for (const [shards, acceptors, threads] of [
      [1, 1, 1],
      [1, 3, 2],
      [7, 3, 2],
      [64, 16, 5],
    ] as const) {
      const topology = createTopology({
        ...{ shards, acceptors, threads, placement: "together" },
        ...{ jobBytesMax: 65535, ringBytes: 4096 },
      });
      assert.equal(topology.threads.length, threads);
      for (let shard = 0; shard < shards; shard++)
        assert.ok(topology.threads[threadOfShard(topology, shard)]!.shards.includes(shard));
      for (let acceptor = 0; acceptor < acceptors; acceptor++)
        assert.ok(topology.threads[threadOfAcceptor(topology, acceptor)]!.acceptors.includes(acceptor));
      const counts = topology.threads.map((thread) => thread.acceptors.length);
      assert.ok(Math.min(...counts) > 0 && Math.max(...counts) <= Math.ceil(acceptors / threads));
      const residents = topology.threads.map((thread) => thread.shards.length);
      assert.equal(
        residents.reduce((sum, count) => sum + count),
        shards,
      );
      assert.ok(Math.max(...residents) <= Math.ceil(shards / threads));
    }
  });
});

describe("usable cores", () => {
  const group = (files: Record<string, string>) => (path: string) => files[path] ?? "";

  it("are the machine's without a limit", () => {
    assert.equal(coresWithin(8, "/a/b", group({ "/a/b": "max 100000\n", "/a": "" })), 8);
  });

  it("are those that all control groups allow, in whole cores, at least one", () => {
    assert.equal(coresWithin(8, "/a/b", group({ "/a/b": "250000 100000\n" })), 2);
    assert.equal(coresWithin(8, "/a/b", group({ "/a/b": "max 100000", "/a": "100000 50000" })), 2);
    assert.equal(coresWithin(8, "", group({ "": "300000 100000" })), 3);
    assert.equal(coresWithin(8, "/a", group({ "/a": "50000 100000" })), 1);
  });

  it("come from the unified hierarchy", () => {
    assert.equal(cgroupPath("12:cpu:/x\n0::/user.slice/a b\n"), "/user.slice/a b");
    assert.equal(cgroupPath("0::/\n"), "");
    assert.equal(cgroupPath("12:cpu:/x\n"), "");
  });
});
