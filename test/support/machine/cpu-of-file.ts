// Preloaded into test files with CPU_TIMES=FILE: at its end, each adds a line to that file with the
// CPU seconds that it and the children it has waited for took. Chromium's processes are missing:
// somebody else waits for them.

import { appendFileSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import { isMainThread } from "node:worker_threads";

const { CPU_TIMES = "" } = process.env;
/** Unit of the kernel's times. */
const TICKS_PER_SECOND = 100;
const [, file = ""] = process.argv;

/** CPU seconds of this process and of the children it has waited for. */
export function cpuSeconds(): number {
  // Behind the name in parentheses; see proc_pid_stat(5) for utime, stime, cutime and cstime.
  const stat = readFileSync("/proc/self/stat", "latin1");
  const times = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 15);
  return times.reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
}

export const noteCpu = (path: string, seconds: number): void =>
  appendFileSync(CPU_TIMES, `${seconds.toFixed(2)} ${path}\n`);

if (isMainThread && file.endsWith(".test.ts"))
  process.on("exit", () => noteCpu(relative(process.cwd(), file), cpuSeconds()));
