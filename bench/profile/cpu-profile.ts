// CPU profiles as V8 writes them, one per thread: the thread's role, and where its time went.
import { readdirSync, readFileSync, renameSync } from "node:fs";
import { basename, join } from "node:path";
import { type Role, roleOf } from "./role-usage.ts";
import type { ThreadUsage } from "./thread-usage.ts";

/** The part of the format that is used here. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  /** The node that each sample found at work. */
  readonly samples: readonly number[];
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[];
}

export interface SelfTime {
  /** Function, file and line. */
  readonly what: string;
  readonly share: number;
}

/** Node's names: CPU.date.time.process.thread.number.cpuprofile; the main thread is 0. */
const FILE_NAME = /^CPU\.\d+\.\d+\.\d+\.(\d+)\.\d+\.cpuprofile$/;

/**
 * Renames Node's files in `directory` to the names of the threads: `shard-0.cpuprofile`,
 * `main.cpuprofile`. Node numbers our threads in the order in which they start, and so does the
 * kernel. Returns the files of each role.
 */
export function nameProfiles(directory: string, threads: readonly ThreadUsage[]): Map<Role, string[]> {
  const own = threads.filter(({ name }) => !["main", "helpers"].includes(roleOf(name)));
  const ordered = ["main", ...own.toSorted((a, b) => a.tid - b.tid).map(({ name }) => name)];
  const found = readdirSync(directory)
    .map((file) => ({ file, thread: Number(FILE_NAME.exec(file)?.[1] ?? Number.NaN) }))
    .filter(({ thread }) => !Number.isNaN(thread))
    .sort((a, b) => a.thread - b.thread);
  const files = new Map<Role, string[]>();
  for (const [index, { file }] of found.entries()) {
    // Threads that read the log at the start come after ours.
    const name = ordered[index] ?? `helper ${index}`;
    const path = join(directory, `${name.replace(" ", "-")}.cpuprofile`);
    renameSync(join(directory, file), path);
    const role = name === "main" ? "main" : roleOf(name);
    files.set(role, [...(files.get(role) ?? []), path]);
  }
  return files;
}

/**
 * Time in functions themselves, without those they call, as a share of the time that the threads
 * didn't wait.
 */
export function selfTimes(files: readonly string[], most: number): SelfTime[] {
  const micros = new Map<string, number>();
  for (const file of files) addSelfTimes(micros, JSON.parse(readFileSync(file, "utf8")) as CpuProfile);
  const total = [...micros.values()].reduce((sum, each) => sum + each, 0);
  return [...micros]
    .map(([what, each]) => ({ what, share: each / total }))
    .sort((a, b) => b.share - a.share)
    .slice(0, most);
}

function addSelfTimes(micros: Map<string, number>, { nodes, samples, timeDeltas }: CpuProfile): void {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  for (const [index, id] of samples.entries()) {
    const place = places.get(id);
    if (place === undefined) continue;
    // The sample stands for the time up to the next one.
    micros.set(place, (micros.get(place) ?? 0) + (timeDeltas[index + 1] ?? 0));
  }
}

/** Undefined where a thread only waits: V8 samples by the clock on the wall. */
function placeOf({
  functionName,
  url,
  lineNumber,
}: CpuProfile["nodes"][number]["callFrame"]): string | undefined {
  if (functionName === "(idle)" || functionName === "(root)") return undefined;
  if (functionName === "sleep" && url.includes("/ring/doorbell.")) return undefined;
  if (url === "")
    return functionName === "(program)"
      ? "(program: native code, system calls, waiting for sockets)"
      : functionName;
  return `${functionName === "" ? "(anonymous)" : functionName}  ${basename(url)}:${lineNumber + 1}`;
}
