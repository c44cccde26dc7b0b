// Process that runs test files with one source file replaced, and ends with 1 at the first failure.
//
// Environment: MUTANT_URL and MUTANT_TEXT (a file) name what is replaced; neither in a run for
// comparison. Arguments: the files of tests. The last line it writes is its CPU time. It ends with
// STALLED if a test waits for good.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { performance } from "node:perf_hooks";
import { run } from "node:test";
import { STALLED } from "./covered.ts";

/** No test in one process waits so long for a timer or a thread; processor time doesn't count. */
const IDLE_MS_MAX = 5000;
const LOOK_MS = 100;
/** What the looks themselves cost stays below. */
const IDLE_SHARE_MAX = 0.1;

const { MUTANT_URL, MUTANT_TEXT } = process.env;
if (MUTANT_URL !== undefined && MUTANT_TEXT !== undefined) {
  const source = readFileSync(MUTANT_TEXT, "utf8");
  registerHooks({
    load: (url, context, nextLoad) =>
      url === MUTANT_URL
        ? { format: "module-typescript", source, shortCircuit: true }
        : nextLoad(url, context),
  });
}

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
