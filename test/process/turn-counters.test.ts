// Test of the turn counters that the threads report when a server stops with --log-level debug.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { TurnCounts } from "../../src/message/turn-counters.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { launch, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const COMMANDS = 50;

/** Serves some puts into these tubes, stops in order; returns the lines of its log. */
async function logOf(
  flags: readonly string[],
  tubes: readonly string[] = ["default"],
): Promise<{ msg: string; threads?: TurnCounts[] }[]> {
  const server = await startServer({ kind: "ours", flags });
  const client = await WireClient.connect(server.address);
  for (const tube of tubes) {
    if (tube !== "default") await client.ask(`use ${tube}`);
    for (let i = 0; i < COMMANDS / tubes.length; i++) await client.put("a body");
  }
  client.close();
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  const lines = server.stderr.trim().split("\n");
  return lines.map((line) => JSON.parse(line) as { msg: string; threads?: TurnCounts[] });
}

it("--log-level debug: a stopped server prints what its threads did", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const log = await logOf([
    ...["--log-level", "debug", "--shards", "2", "--acceptors", "1"],
    // A shard that lives with an acceptor never sleeps.
    ...["--placement", "apart"],
  ]);
  const threads = log.find(({ msg }) => msg === "what the threads did")?.threads ?? [];
  assert.deepEqual(
    threads.map(({ thread }) => thread),
    ["shard 0", "shard 1", "acceptor 0"],
  );
  const [shard0, shard1, acceptor] = threads as [TurnCounts, TurnCounts, TurnCounts];
  // Besides the puts there are messages about the connection: that it came, and that it went.
  const requests = shard0.messages + shard1.messages;
  assert.ok(requests > COMMANDS && requests < COMMANDS + 10, `${requests} requests`);
  assert.ok(acceptor.messages >= COMMANDS && acceptor.messages <= requests, `${acceptor.messages} answers`);
  for (const each of threads) {
    assert.equal(each.crossed, each.messages, `${each.thread}: every message comes from another thread`);
    assert.ok(each.turns >= each.busyTurns, each.thread);
    assert.ok(each.sleeps > 0, each.thread);
    if (each.messages === 0) continue;
    assert.ok(each.busyTurns > 0 && each.busyTurns <= each.messages, each.thread);
    // One small message at a time: a little of a ring of 1 MiB.
    assert.ok(each.ringFillMax > 0 && each.ringFillMax < 0.01, `${each.ringFillMax}`);
    assert.ok(each.ringFillMean > 0 && each.ringFillMean <= each.ringFillMax, `${each.ringFillMean}`);
  }
  const wakes = threads.reduce((sum, each) => sum + each.wakes, 0);
  assert.ok(wakes > 0, "a thread was woken");
});

it("--log-level debug: messages cross threads where tubes live in several, and none where there is one", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const flags = ["--log-level", "debug", "--placement", "together", "--no-migration", "--shards", "2"];
  // Some on each shard, wherever the kernel has put the client.
  const tubes = Array.from({ length: 10 }, (_, tube) => `t${tube}`);
  const crossings = async (threads: string): Promise<number> => {
    const log = await logOf([...flags, "--acceptors", threads, "--threads", threads], tubes);
    const counts = log.find(({ msg }) => msg === "what the threads did")?.threads ?? [];
    assert.ok(counts.reduce((sum, { messages }) => sum + messages, 0) > COMMANDS);
    return counts.reduce((sum, { crossed }) => sum + crossed, 0);
  };
  assert.equal(await crossings("1"), 0);
  const crossed = await crossings("2");
  assert.ok(crossed > 0 && crossed < 2 * COMMANDS, `${crossed}`);
});

it("--log-level: lines below the level are dropped, an unknown level is refused", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const usual = (await logOf([])).map(({ msg }) => msg);
  assert.ok(usual.includes("stopped") && !usual.includes("what the threads did"));
  const refused = await launch({ kind: "ours", flags: ["--log-level", "loud"] });
  assert.deepEqual(await refused.exited, { code: 5, signal: null });
  assert.match(refused.stderr, /invalid level: --log-level loud \(debug, info, warn, error\)/);
});
