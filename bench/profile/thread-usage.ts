// CPU time and sleeps of each thread of a process, from /proc.
import { readdirSync, readFileSync } from "node:fs";
import { cpuTimes } from "../server/process-usage.ts";

export interface ThreadUsage {
  /** The kernel's number of the thread; they rise in the order in which threads start. */
  readonly tid: number;
  /** Up to 15 characters: our threads set it, others are named by Node or V8. */
  readonly name: string;
  readonly userSeconds: number;
  readonly kernelSeconds: number;
  /** How often it slept until something came, and how often it lost its core to another thread. */
  readonly sleeps: number;
  readonly preemptions: number;
}

export function threadUsages(pid: number): ThreadUsage[] {
  const usages: ThreadUsage[] = [];
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${tid}`;
    try {
      const status = readFileSync(`${folder}/status`, "utf8");
      const switches = (kind: string): number =>
        Number(new RegExp(`^${kind}_ctxt_switches:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
      usages.push({
        tid: Number(tid),
        name: readFileSync(`${folder}/comm`, "utf8").trim(),
        ...cpuTimes(`${folder}/stat`),
        sleeps: switches("voluntary"),
        preemptions: switches("nonvoluntary"),
      });
    } catch (error) {
      // A helper of V8's may end between two looks; anything else is a fault.
      if (!["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
  return usages.sort((a, b) => a.tid - b.tid);
}
