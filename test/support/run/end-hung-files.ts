// Ends the processes of test files that run for too long. Node's runner limits tests, but not a
// process that stays alive after its tests, nor one whose thread is blocked.

import { existsSync, readdirSync, readFileSync } from "node:fs";

const LOOK_MS = 250;
/** Time that a process has to end its servers. */
const GRACE_MS = 2000;
const NS_PER_MS = 1e6;

interface HungFilesOptions {
  /** Time limit of a file, ms. */
  readonly limitOf: (file: string) => Limit;
  readonly onHung: (file: string, afterMs: number) => void;
  /** Called each `tellMs` for a file that still runs. */
  readonly onStillRunning: (file: string, afterMs: number) => void;
  readonly tellMs: number;
}

interface Limit {
  /** In wall-clock time. */
  readonly wallMs: number;
  /** In time that it computed or slept, without time that it waited for a core. */
  readonly ownMs: number;
}

interface Child {
  readonly file: string;
  readonly sinceMs: number;
  /** Time that it had waited for a core by then. */
  readonly waitedBeforeMs: number;
  toldAtMs: number;
  askedAtMs: number | undefined;
}

/**
 * Looks after the children of this process whose command line names one of `files`: one that takes
 * longer than its limit is told to end, then killed. A process may play one file after the other,
 * each with its own time. Returns what ends the looking.
 */
export function endHungFiles(
  files: readonly string[],
  { limitOf, onHung, onStillRunning, tellMs }: HungFilesOptions,
): () => void {
  const children = new Map<number, Child>();
  const lookAt = (pid: number, child: Child, nowMs: number): void => {
    if (child.askedAtMs !== undefined) {
      if (nowMs - child.askedAtMs >= GRACE_MS) end(pid, "SIGKILL");
      return;
    }
    const wallMs = nowMs - child.sinceMs;
    const limit = limitOf(child.file);
    if (
      wallMs >= limit.wallMs ||
      (wallMs >= limit.ownMs && wallMs - waitedMs(pid) + child.waitedBeforeMs >= limit.ownMs)
    ) {
      child.askedAtMs = nowMs;
      onHung(child.file, wallMs);
      end(pid, "SIGTERM");
    } else if (nowMs - child.toldAtMs >= tellMs) {
      child.toldAtMs = nowMs;
      onStillRunning(child.file, wallMs);
    }
  };
  const look = (): void => {
    const nowMs = performance.now();
    const pids = childProcesses();
    for (const pid of children.keys()) if (!pids.includes(pid)) children.delete(pid);
    for (const pid of pids) {
      const child = children.get(pid);
      const file = fileOf(pid, files) ?? child?.file;
      if (child !== undefined && (child.file === file || child.askedAtMs !== undefined))
        lookAt(pid, child, nowMs);
      else if (file !== undefined)
        children.set(pid, {
          file,
          sinceMs: nowMs,
          waitedBeforeMs: waitedMs(pid),
          toldAtMs: nowMs,
          askedAtMs: undefined,
        });
    }
  };
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
}

/** Returns how long a process's main thread was ready to run without a core. */
function waitedMs(pid: number): number {
  const [, waitedNs = "0"] = read(`/proc/${pid}/schedstat`).split(" ");
  return Number(waitedNs) / NS_PER_MS;
}

/**
 * The kernel lists the children of a thread, and Node starts them in its first one: to look at all
 * processes of the machine four times a second would take some hundredths of a core.
 */
function childProcesses(): number[] {
  const list = `/proc/self/task/${process.pid}/children`;
  return existsSync(list) ? read(list).split(" ").filter(Boolean).map(Number) : childrenAmongAll();
}

/** For a kernel without such lists. */
function childrenAmongAll(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      // Its name is in parentheses and may have any characters; behind it come its state and its
      // parent.
      const stat = read(`/proc/${pid}/stat`);
      return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === process.pid;
    });
}

const fileOf = (pid: number, files: readonly string[]): string | undefined => {
  const words = read(`/proc/${pid}/cmdline`).split("\0");
  return files.find((file) => words.includes(file));
};

/** Empty for a process that is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

function end(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
