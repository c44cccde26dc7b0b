import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createTopology, residentsOf, shardBell } from "../../../src/message/topology.ts";
import { choosePlacement } from "../../../src/server/placement.ts";
import { cgroupPath, coresWithin } from "../../../src/server/usable-cores.ts";

const auto = (shards: number, acceptors: number, cores: number): string =>
  choosePlacement({ shards, acceptors, placement: "auto" }, cores).placement;

describe("placement", () => {
  it("puts shards beside acceptors where a core for each and one for the others can't be had", () => {
    assert.equal(auto(1, 1, 1), "together");
    assert.equal(auto(1, 1, 2), "together");
    assert.equal(auto(1, 1, 3), "apart");
    assert.equal(auto(4, 1, 4), "together");
    assert.equal(auto(2, 5, 8), "apart");
  });

  it("is as asked, and says what it is and why", () => {
    const asked = choosePlacement({ shards: 7, acceptors: 3, placement: "apart" }, 2);
    assert.deepEqual(asked, { placement: "apart", cores: 2, why: "apart in 10 threads (as asked)" });
    const chosen = choosePlacement({ shards: 1, acceptors: 1, placement: "auto" }, 1);
    assert.equal(chosen.why, "together in 1 thread (1 usable core)");
  });

  it("spreads any number of shards over any number of acceptors, and rings each where it lives", () => {
    for (const [shards, acceptors] of [
      [1, 1],
      [1, 3],
      [7, 3],
      [64, 16],
    ] as const) {
      const topology = createTopology({
        ...{ shards, acceptors, placement: "together" },
        ...{ jobBytesMax: 65535, ringBytes: 4096 },
      });
      const all = Array.from({ length: acceptors }, (_, acceptor) => residentsOf(topology, acceptor));
      assert.deepEqual(
        all.flat().sort((a, b) => a - b),
        [...Array(shards).keys()],
      );
      assert.ok(Math.max(...all.map((each) => each.length)) <= Math.ceil(shards / acceptors));
      for (const [acceptor, residents] of all.entries())
        for (const shard of residents) assert.equal(shardBell(topology, shard), shards + acceptor);
    }
  });
});

describe("usable cores", () => {
  const group = (files: Record<string, string>) => (path: string) => files[path] ?? "";

  it("are those of the machine without a limit", () => {
    assert.equal(coresWithin(8, "/a/b", group({ "/a/b": "max 100000\n", "/a": "" })), 8);
  });

  it("are those that the control group and all above it allow, in whole cores, and one at least", () => {
    assert.equal(coresWithin(8, "/a/b", group({ "/a/b": "250000 100000\n" })), 2);
    assert.equal(coresWithin(8, "/a/b", group({ "/a/b": "max 100000", "/a": "100000 50000" })), 2);
    assert.equal(coresWithin(8, "", group({ "": "300000 100000" })), 3);
    assert.equal(coresWithin(8, "/a", group({ "/a": "50000 100000" })), 1);
  });

  it("are looked for in the unified hierarchy", () => {
    assert.equal(cgroupPath("12:cpu:/x\n0::/user.slice/a b\n"), "/user.slice/a b");
    assert.equal(cgroupPath("0::/\n"), "");
    assert.equal(cgroupPath("12:cpu:/x\n"), "");
  });
});
