// CPU time of a server's threads, from /proc, in nanoseconds where the kernel counts them.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { cpuTimes } from "../server/process-usage.ts";

export interface ThreadTime {
  readonly tid: number;
  readonly name: string;
  readonly cpuSeconds: number;
}

export function threadTimes(pid: number): ThreadTime[] {
  const times: ThreadTime[] = [];
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${tid}`;
    try {
      const name = readFileSync(`${folder}/comm`, "utf8").trim();
      times.push({ tid: Number(tid), name, cpuSeconds: cpuSecondsOf(folder) });
    } catch (error) {
      // A helper of V8's may end between two looks; anything else is a fault.
      if (!["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
  return times;
}

function cpuSecondsOf(folder: string): number {
  if (existsSync(`${folder}/schedstat`)) {
    const ran = Number(readFileSync(`${folder}/schedstat`, "utf8").split(" ")[0]);
    if (ran > 0) return ran / 1e9;
  }
  // The kernel was built without the scheduler's statistics.
  const { userSeconds, kernelSeconds } = cpuTimes(`${folder}/stat`);
  return userSeconds + kernelSeconds;
}

/** What each thread used between two looks. A new one counts from zero, an ended one not at all. */
export function timesBetween(before: readonly ThreadTime[], after: readonly ThreadTime[]): ThreadTime[] {
  const earlier = new Map(before.map((thread) => [thread.tid, thread]));
  return after.map((thread) => ({
    ...thread,
    cpuSeconds: thread.cpuSeconds - (earlier.get(thread.tid)?.cpuSeconds ?? 0),
  }));
}
