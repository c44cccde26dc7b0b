// Ends the processes of test files that run for too long: node's runner has a limit for tests, but none for a process that
// something keeps open when its tests are over.

import { readdirSync, readFileSync } from "node:fs";

const LOOK_MS = 250;
/** So long has a process to end its servers. */
const GRACE_MS = 2000;

interface Child {
  readonly file: string;
  readonly sinceMs: number;
  isAsked: boolean;
}

/**
 * Looks after the children of this process whose command line names one of `files`: one that runs for `limitMs` is told to
 * end, then killed. Returns what ends the looking.
 */
export function endHungFiles(
  files: readonly string[],
  limitMs: number,
  onHung: (file: string) => void,
): () => void {
  const children = new Map<number, Child>();
  const look = (): void => {
    const nowMs = performance.now();
    const pids = childProcesses();
    for (const pid of children.keys()) if (!pids.includes(pid)) children.delete(pid);
    for (const pid of pids) {
      const child = children.get(pid);
      const file = child?.file ?? fileOf(pid, files);
      if (child === undefined) {
        if (file !== undefined) children.set(pid, { file, sinceMs: nowMs, isAsked: false });
      } else if (nowMs - child.sinceMs >= limitMs + GRACE_MS) end(pid, "SIGKILL");
      else if (nowMs - child.sinceMs >= limitMs && !child.isAsked) {
        child.isAsked = true;
        onHung(child.file);
        end(pid, "SIGTERM");
      }
    }
  };
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
}

function childProcesses(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      // Its name is in parentheses and may have any characters; behind it come its state and its parent.
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
