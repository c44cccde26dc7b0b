// CPU time of a server's threads and of everything else on its cores, from /proc, in nanoseconds
// where the kernel counts them.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { cpuTimes } from "../server/process-usage.ts";

export interface ThreadTime {
  readonly tid: number;
  readonly name: string;
  readonly cpuSeconds: number;
  /** How long it was ready and had no core. */
  readonly waitedSeconds: number;
}

export function threadTimes(pid: number): ThreadTime[] {
  const times: ThreadTime[] = [];
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${tid}`;
    try {
      const name = readFileSync(`${folder}/comm`, "utf8").trim();
      times.push({ tid: Number(tid), name, ...schedulerTimes(folder) });
    } catch (error) {
      // A helper of V8's may end between two looks; anything else is a fault.
      if (!["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
  return times;
}

function schedulerTimes(folder: string): Pick<ThreadTime, "cpuSeconds" | "waitedSeconds"> {
  if (existsSync(`${folder}/schedstat`)) {
    const [ran = 0, waited = 0] = readFileSync(`${folder}/schedstat`, "utf8").split(" ").map(Number);
    if (ran > 0) return { cpuSeconds: ran / 1e9, waitedSeconds: waited / 1e9 };
  }
  // The kernel was built without the scheduler's statistics.
  const { userSeconds, kernelSeconds } = cpuTimes(`${folder}/stat`);
  return { cpuSeconds: userSeconds + kernelSeconds, waitedSeconds: 0 };
}

/** What each thread used between two looks. A new one counts from zero, an ended one not at all. */
export function timesBetween(before: readonly ThreadTime[], after: readonly ThreadTime[]): ThreadTime[] {
  const earlier = new Map(before.map((thread) => [thread.tid, thread]));
  return after.map((thread) => ({
    ...thread,
    cpuSeconds: thread.cpuSeconds - (earlier.get(thread.tid)?.cpuSeconds ?? 0),
    waitedSeconds: thread.waitedSeconds - (earlier.get(thread.tid)?.waitedSeconds ?? 0),
  }));
}
