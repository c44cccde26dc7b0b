// Time that the threads of a process ran, and that they were ready to run, but had no core.

import { readdirSync, readFileSync } from "node:fs";

const NS_PER_MS = 1e6;

interface ThreadTimes {
  readonly ranMs: number;
  readonly waitedMs: number;
}

/** Returns the sum over all threads that are alive, ms; 0 for a process that is gone. */
export const waitedForCoresMs = (pid: number): number =>
  threadsOf(pid).reduce((sum, [, { waitedMs }]) => sum + waitedMs, 0);

/** Time that passes for a server and a client, without what only the machine is to blame for. */
export class FairTime {
  readonly #pid: number;
  readonly #startedMs = performance.now();
  readonly #before: ReadonlyMap<string, ThreadTimes>;
  readonly #waitedHereMs = timesIn("/proc/thread-self").waitedMs;

  /** Begins now. */
  constructor(pid: number) {
    this.#pid = pid;
    this.#before = new Map(threadsOf(pid));
  }

  /** Returns the time in which all threads that wanted a core had one, or one of them computed. */
  get passedMs(): number {
    const { passedMs, mostMs } = this.#look();
    return Math.max(Math.min(passedMs, mostMs), this.withCoresMs);
  }

  /** Returns the time in which all threads that wanted a core had one. */
  get withCoresMs(): number {
    const { passedMs, waitedMs } = this.#look();
    return Math.max(0, passedMs - waitedMs);
  }

  /**
   * Returns the time in which the calling thread had a core, if it wanted one, and how long
   * one of the server's threads computed at most and all waited together.
   */
  #look(): { passedMs: number; mostMs: number; waitedMs: number } {
    const waitedHereMs = timesIn("/proc/thread-self").waitedMs - this.#waitedHereMs;
    const passedMs = performance.now() - this.#startedMs - waitedHereMs;
    let [mostMs, waitedMs] = [0, 0];
    for (const [thread, now] of threadsOf(this.#pid)) {
      const before = this.#before.get(thread) ?? { ranMs: 0, waitedMs: 0 };
      mostMs = Math.max(mostMs, now.ranMs - before.ranMs);
      waitedMs += now.waitedMs - before.waitedMs;
    }
    return { passedMs, mostMs, waitedMs };
  }
}

function threadsOf(pid: number): [thread: string, times: ThreadTimes][] {
  const folder = `/proc/${pid}/task`;
  try {
    return readdirSync(folder).map((thread) => [thread, timesIn(`${folder}/${thread}`)]);
  } catch {
    return [];
  }
}

/** See the kernel's sched-stats.rst. */
function timesIn(folder: string): ThreadTimes {
  try {
    const [ranNs, waitedNs] = readFileSync(`${folder}/schedstat`, "latin1").split(" ");
    return { ranMs: Number(ranNs) / NS_PER_MS, waitedMs: Number(waitedNs) / NS_PER_MS };
  } catch {
    return { ranMs: 0, waitedMs: 0 }; // The thread has ended.
  }
}
