// Tests of the projection's formula with made-up costs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultThreads } from "../../src/server/options/thread-settings.ts";
import { bestLayout, PROJECTED_CORES, project, projections, type RoleCosts } from "./projection.ts";

/** Microseconds for each command. */
const COSTS: RoleCosts = { acceptor: 8, shard: 2, binlog: 0, other: 0 };

test("project: the scarcest role limits", () => {
  const acceptors = project(COSTS, { cores: 8, acceptors: 2, shards: 1 });
  assert.equal(acceptors.commandsPerSecond, 250_000);
  assert.equal(acceptors.limit, "acceptors");
  const shards = project(COSTS, { cores: 32, acceptors: 16, shards: 1 });
  assert.equal(shards.commandsPerSecond, 500_000);
  assert.equal(shards.limit, "shards");
});

test("project: more threads than cores gain nothing", () => {
  const crowded = project(COSTS, { cores: 4, acceptors: 16, shards: 16 });
  assert.equal(crowded.commandsPerSecond, 400_000);
  assert.equal(crowded.limit, "cores");
});

test("project: the log has one thread, whatever the number of cores", () => {
  const durable = project({ ...COSTS, binlog: 4 }, { cores: 64, acceptors: 16, shards: 16 });
  assert.equal(durable.commandsPerSecond, 250_000);
  assert.equal(durable.limit, "binlog");
});

test("project: roles without a thread of their own take cores", () => {
  const withHelpers = project({ ...COSTS, other: 10 }, { cores: 4, acceptors: 4, shards: 4 });
  assert.equal(withHelpers.commandsPerSecond, 200_000);
  assert.equal(withHelpers.limit, "cores");
});

test("bestLayout: no other layout is faster, or as fast with fewer threads", () => {
  for (const costs of [COSTS, { acceptor: 3, shard: 3, binlog: 1, other: 0.5 }]) {
    for (const cores of [2, ...PROJECTED_CORES]) {
      const best = bestLayout(costs, cores);
      assert.ok(best.acceptors + best.shards <= cores);
      for (let acceptors = 1; acceptors <= 16; acceptors++) {
        for (let shards = 1; acceptors + shards <= cores; shards++) {
          const { commandsPerSecond } = project(costs, { cores, acceptors, shards });
          assert.ok(commandsPerSecond <= best.commandsPerSecond, `${acceptors} x ${shards} on ${cores}`);
          if (acceptors + shards < best.acceptors + best.shards)
            assert.ok(commandsPerSecond < best.commandsPerSecond, `${acceptors} x ${shards} on ${cores}`);
        }
      }
    }
  }
});

test("projections: list measured, default and best threads per number of cores", () => {
  const rows = projections(COSTS, { acceptors: 1, shards: 1 });
  assert.deepEqual([...new Set(rows.map(({ cores }) => cores))], [...PROJECTED_CORES]);
  assert.equal(rows.length, 3 * PROJECTED_CORES.length);
  for (const row of rows) {
    if (row.layout === "as measured") assert.equal(row.commandsPerSecond, 125_000);
    if (row.layout !== "default") continue;
    const { acceptors, shards } = row;
    assert.deepEqual({ acceptors, shards }, defaultThreads(row.cores));
  }
});
