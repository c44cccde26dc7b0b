// CPU time and memory of a process, all threads, from /proc.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

export interface ProcessUsage {
  readonly cpuSeconds: number;
  readonly residentBytes: number;
}

let ticksPerSecond = 0;

export function processUsage(pid: number): ProcessUsage {
  const { userSeconds, kernelSeconds } = cpuTimes(`/proc/${pid}/stat`);
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const residentKib = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0);
  return { cpuSeconds: userSeconds + kernelSeconds, residentBytes: residentKib * 1024 };
}

/** CPU time of the threads that a process has now, where the kernel tells it in nanoseconds. */
export function preciseCpuSeconds(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]),
  );
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e9;
}

/** CPU time from a `stat` file of a process or thread, in clock ticks, usually of 10 ms. */
export function cpuTimes(statFile: string): { readonly userSeconds: number; readonly kernelSeconds: number } {
  ticksPerSecond ||= Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));
  const stat = readFileSync(statFile, "utf8");
  // The command in parentheses may hold blanks; state is the first field after it, utime and stime
  // the 12th and 13th.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return {
    userSeconds: Number(fields[11]) / ticksPerSecond,
    kernelSeconds: Number(fields[12]) / ticksPerSecond,
  };
}
