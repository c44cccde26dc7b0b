// Tests of profiles: roles of threads, self times, and a small case from end to end.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { BenchCase } from "../case/bench-case.ts";
import { loadCase } from "../case/load-case.ts";
import { memoryCase } from "../case/memory-case.ts";
import { WorkerLoad } from "../load/worker-load.ts";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import type { BenchOptions } from "../options.ts";
import { costsOf, profileCase } from "./case-profile.ts";
import { nameProfiles, selfTimes } from "./cpu-profile.ts";
import { profileText } from "./profile-text.ts";
import { roleOf, usageBetween } from "./role-usage.ts";
import type { ThreadUsage } from "./thread-usage.ts";

const folder = mkdtempSync(join(tmpdir(), "profile-"));
after(() => rmSync(folder, { recursive: true, force: true }));

function thread(tid: number, name: string, userSeconds = 0, kernelSeconds = 0, sleeps = 0): ThreadUsage {
  return { tid, name, userSeconds, kernelSeconds, sleeps, preemptions: 0 };
}

test("roleOf: knows our threads by name; all others are helpers", () => {
  const names = ["acceptor 12", "shard 0", "binlog", "runnerbean", "node-MainThread", "node-V8Worker"];
  assert.deepEqual(names.map(roleOf), ["acceptor", "shard", "binlog", "main", "main", "helpers"]);
});

test("usageBetween, costsOf: give differences by role; new threads count from zero", () => {
  const before = [thread(1, "acceptor 0", 1, 2, 10), thread(2, "shard 0", 5, 0, 7), thread(9, "gone", 3)];
  const later = [thread(1, "acceptor 0", 1.5, 3, 14), thread(2, "shard 0", 5.25, 0, 9)];
  const roles = usageBetween(before, [...later, thread(3, "acceptor 1", 0.5, 0, 1)]);
  assert.deepEqual(roles, [
    { role: "acceptor", threads: 2, userSeconds: 1, kernelSeconds: 1, sleeps: 5, preemptions: 0 },
    { role: "shard", threads: 1, userSeconds: 0.25, kernelSeconds: 0, sleeps: 2, preemptions: 0 },
  ]);
  const costs = costsOf({ roles, commands: 100_000 });
  assert.deepEqual(costs, { acceptor: 20, shard: 2.5, binlog: 0, other: 0 });
});

test("nameProfiles: matches threads and files in the order of their start", () => {
  const directory = mkdtempSync(join(folder, "names-"));
  // Ten threads: as text, 10 would come before 2.
  const threads = Array.from({ length: 10 }, (_, shard) => thread(100 + shard, `shard ${shard}`)).reverse();
  for (let number = 0; number <= 11; number++)
    writeFileSync(join(directory, `CPU.20261121.062801.10810.${number}.${number}.cpuprofile`), `${number}`);
  const files = nameProfiles(directory, [thread(99, "runnerbean"), ...threads]);
  assert.deepEqual(files.get("main"), [join(directory, "main.cpuprofile")]);
  assert.equal(files.get("shard")!.length, 10);
  assert.equal(files.get("helpers")!.length, 1);
  assert.equal(readFileSync(join(directory, "shard-9.cpuprofile"), "utf8"), "10");
});

test("selfTimes: gives shares of the working time, without waiting", () => {
  const frame = (functionName: string, url = "") => ({ functionName, url, lineNumber: 6 });
  const nodes = [
    frame("(root)"),
    frame("(idle)"),
    frame("sleep", "file:///src/ring/doorbell.ts"),
    frame("parse", "file:///src/protocol/command-parser.ts"),
    frame("(garbage collector)"),
  ].map((callFrame, index) => ({ id: index + 1, callFrame }));
  const file = join(folder, "made-up.cpuprofile");
  const samples = [2, 3, 4, 4, 5, 2];
  writeFileSync(file, JSON.stringify({ nodes, samples, timeDeltas: [5, 1000, 1000, 200, 100, 100] }));
  assert.deepEqual(selfTimes([file], 10), [
    { what: "parse  command-parser.ts:7", share: 0.75 },
    { what: "(garbage collector)", share: 0.25 },
  ]);
  assert.equal(selfTimes([file, file], 1)[0]!.share, 0.75);
});

test("profileCase: profiles a small case from end to end", async (t) => {
  const load = new WorkerLoad(1);
  t.after(() => load.close());
  const options = { ours: "", shards: 2, acceptors: 1 } as BenchOptions;
  const small = { ...WORKLOAD_DEFAULTS, connections: 4, tubes: 4, seconds: 1.5, warmupSeconds: 0.1 };
  const context = () => ({ load, directory: mkdtempSync(join(folder, "log-")), flags: { binlog: false } });
  const profileOf = (benchCase: BenchCase, directory: string) =>
    profileCase(benchCase, options, context, join(folder, directory));

  const found = await profileOf(loadCase(small, { fsync: "50" }), "durable");
  assert.ok(found.measured.commands > 0);
  assert.deepEqual(
    found.measured.turns.map(({ thread: name }) => name),
    ["shard 0", "shard 1", "acceptor 0", "binlog"],
  );
  const roles = found.measured.roles.map(({ role }) => role);
  assert.deepEqual(roles, ["acceptor", "shard", "binlog", "main", "helpers"]);
  const names = ["acceptor-0", "binlog", "main", "shard-0", "shard-1"];
  assert.deepEqual(
    readdirSync(found.directory).toSorted(),
    names.map((name) => `${name}.cpuprofile`),
  );
  // Each file holds the thread in its name: only that thread runs this code.
  const loops = {
    acceptor: "acceptor/acceptor-thread",
    shard: "shard/shard-core",
    binlog: "binlog/thread",
  };
  for (const [role, file] of Object.entries(loops)) {
    // A file that is only loaded has a function without a name.
    const runs = new RegExp(`"functionName":"[^"]+"[^}]*/src/${file}\\.ts`);
    for (const name of names) {
      const text = readFileSync(join(found.directory, `${name}.cpuprofile`), "utf8");
      assert.equal(runs.test(text), name.startsWith(role), `${role} in ${name}`);
    }
  }
  const text = profileText(found);
  assert.match(text, /PROJECTION, not a measurement/);
  assert.match(text, /│ binlog +│ +1 │/);

  await assert.rejects(profileOf(memoryCase(1000), "memory"), /--profile takes cases that measure one load/);
});
