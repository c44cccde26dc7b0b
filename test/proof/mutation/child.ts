// Process that runs test files, and ends with 1 at the first failure.
//
// Arguments: the files of tests. The last line it writes is its CPU time. It ends with STALLED if a
// test waits for good. `replace.ts` gives it the mutant.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { run } from "node:test";
import { STALLED } from "./covered.ts";

/** No test in one process waits so long for a timer or a thread; processor time doesn't count. */
const IDLE_MS_MAX = 5000;
const LOOK_MS = 100;
/** What the looks themselves cost stays below. */
const IDLE_SHARE_MAX = 0.1;

/** Whether another thread runs, or would if it had a core. */
function runsElsewhere(): boolean {
  return readdirSync("/proc/self/task").some((thread) => {
    if (thread === `${process.pid}`) return false;
    const stat = `/proc/self/task/${thread}/stat`;
    // A thread that has just ended has run until then.
    return !existsSync(stat) || readFileSync(stat, "utf8").includes(") R ");
  });
}

let idleMs = 0;
let before = performance.eventLoopUtilization();
setInterval(() => {
  const now = performance.eventLoopUtilization();
  const { idle, utilization } = performance.eventLoopUtilization(now, before);
  before = now;
  idleMs = utilization < IDLE_SHARE_MAX && !runsElsewhere() ? idleMs + idle : 0;
  if (idleMs > IDLE_MS_MAX) process.exit(STALLED);
}, LOOK_MS).unref();

const files = process.argv.slice(2);
const events = run({ files, isolation: "none", concurrency: 1 });
let failed = false;
for await (const { type, data } of events) {
  if (type !== "test:fail" || data.todo !== undefined) continue;
  failed = true;
  console.log(`FAILED ${data.file?.split("/").at(-1) ?? ""}: ${data.name}`);
  break;
}
const { user, system } = process.cpuUsage();
console.log(`CPU ${Math.ceil((user + system) / 1000)} ms`);
process.exit(failed ? 1 : 0);
