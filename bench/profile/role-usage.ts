// Resources that the threads of each role used between two samples.
import type { ThreadUsage } from "./thread-usage.ts";

const ROLES = ["acceptor", "shard", "binlog", "main", "helpers"] as const;
/** `helpers` are the threads of V8 and libuv: garbage collection, compilation, files. */
export type Role = (typeof ROLES)[number];

export interface RoleUsage {
  readonly role: Role;
  readonly threads: number;
  readonly userSeconds: number;
  readonly kernelSeconds: number;
  readonly sleeps: number;
  readonly preemptions: number;
}

/** The program's name, and those of Node, which older versions have. */
const MAIN_NAMES: ReadonlySet<string> = new Set(["runnerbean", "node-MainThread", "node"]);

/** The role of a thread by its name. */
export function roleOf(name: string): Role {
  const own = /^(acceptor|shard) \d+$|^(binlog)$/.exec(name);
  if (own !== null) return (own[1] ?? own[2]) as Role;
  return MAIN_NAMES.has(name) ? "main" : "helpers";
}

/**
 * Returns the usage of every role with threads; a new thread counts from zero, an ended one doesn't
 * count.
 */
export function usageBetween(before: readonly ThreadUsage[], after: readonly ThreadUsage[]): RoleUsage[] {
  const earlier = new Map(before.map((thread) => [thread.tid, thread]));
  return ROLES.flatMap((role) => {
    const threads = after.filter(({ name }) => roleOf(name) === role);
    if (threads.length === 0) return [];
    const used = (figure: "userSeconds" | "kernelSeconds" | "sleeps" | "preemptions"): number =>
      threads.reduce((sum, thread) => sum + thread[figure] - (earlier.get(thread.tid)?.[figure] ?? 0), 0);
    return {
      role,
      threads: threads.length,
      userSeconds: used("userSeconds"),
      kernelSeconds: used("kernelSeconds"),
      sleeps: used("sleeps"),
      preemptions: used("preemptions"),
    };
  });
}
