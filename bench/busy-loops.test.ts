// Tests of the busy loops: they run while the work is done, and end with it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { withBusyLoops } from "./server/busy-loops.ts";
import { cpuTimes } from "./server/process-usage.ts";

/** Process ids of the busy loops that this process has started. */
function loops(): string[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim();
  const pids = children === "" ? [] : children.split(" ");
  return pids.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("busy-loop.ts"));
}

test("withBusyLoops: the requested number of processes takes CPU time until the work is done", async () => {
  const seen = await withBusyLoops(2, async () => {
    const pids = loops();
    const used = (pid: string) => cpuTimes(`/proc/${pid}/stat`).userSeconds;
    const before = pids.map(used);
    const isTurning = () => pids.every((pid, index) => used(pid) > before[index]! + 0.02);
    const deadlineMs = performance.now() + 20_000;
    while (!isTurning() && performance.now() < deadlineMs) await new Promise(setImmediate);
    assert.ok(isTurning());
    return pids.length;
  });
  assert.equal(seen, 2);
  assert.deepEqual(loops(), []);
});

test("withBusyLoops: the loops end if the work fails", async () => {
  const failing = withBusyLoops(1, () => Promise.reject(new Error("broken")));
  await assert.rejects(failing, /broken/);
  assert.deepEqual(loops(), []);
});
