// Entry point of a worker thread that serves: runs acceptors with the shards beside them and
// perhaps the log, or a single shard.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { AcceptorThread, AcceptorThreadData } from "../acceptor/acceptor-thread.ts";
import type { BinlogData, BinlogNews } from "../binlog/binlog-runtime.ts";
import type { WaitSettings } from "../loop/waiting-policy.ts";
import type { OwnLog } from "../shard/records/record-log.ts";
import type { ShardRuntime, ShardRuntimeOptions } from "../shard/shard-runtime.ts";

export interface ShardWorkerData extends ShardRuntimeOptions {
  recovery: MessagePort | undefined;
  waiting: WaitSettings;
}

export interface AcceptorWorkerData extends AcceptorThreadData {
  /** The shards that run in this thread. */
  residents: ShardRuntimeOptions[];
  /** The log, if it runs here. */
  log: LogWorkerData | undefined;
}

export interface LogWorkerData extends BinlogData {
  /** The port to the main thread, as a separate log thread would have. */
  port: MessagePort;
}

export type WorkerData =
  | { readonly kind: "shard"; readonly shard: ShardWorkerData }
  | { readonly kind: "acceptors"; readonly acceptors: AcceptorWorkerData };

/**
 * Loads only the code of this thread's roles: reading code is most of the startup time, in every
 * thread.
 */
async function start(data: WorkerData, port: MessagePort): Promise<void> {
  if (data.kind === "shard") {
    const { runShard } = await import("../shard/shard-runtime.ts");
    port.postMessage("ready");
    runShard(data.shard, data.shard.waiting);
    return;
  }
  const { AcceptorThread } = await import("../acceptor/acceptor-thread.ts");
  const { log } = data.acceptors;
  const ownLog: OwnLog | undefined = log === undefined ? undefined : { log: undefined };
  const residents = await residentsOf(data.acceptors, ownLog);
  const thread = new AcceptorThread(data.acceptors);
  const loaded = Promise.all(residents.map((resident) => new Promise<void>((load) => resident.load(load))));
  if (ownLog === undefined) await loaded;
  else if (!(await openLog(log!, ownLog, thread))) return;
  // Added all at once. At startup, due timers may fill a shard's ring to the log, and the log takes
  // nothing before all shards have their jobs. A shard that waited for room would block the thread
  // that the others need to get theirs.
  for (const { role, shard, arena } of residents) thread.addResident(role, shard, arena);
}

async function residentsOf(
  { residents }: AcceptorWorkerData,
  ownLog: OwnLog | undefined,
): Promise<ShardRuntime[]> {
  if (residents.length === 0) return [];
  const { ShardRuntime } = await import("../shard/shard-runtime.ts");
  return residents.map((options) => new ShardRuntime(options, ownLog));
}

/**
 * Opens the log when the main thread says so, and gives it turns once all shards have their jobs.
 * Returns false if it cannot be opened.
 */
async function openLog(
  { port, ...log }: LogWorkerData,
  ownLog: OwnLog,
  thread: AcceptorThread,
): Promise<boolean> {
  const { BinlogRuntime } = await import("../binlog/binlog-runtime.ts");
  const tell = (news: BinlogNews): void => port.postMessage(news);
  const runtime = new BinlogRuntime(log, tell);
  const order = new Promise((resolve) => port.once("message", resolve));
  tell({ news: "loaded" });
  await order;
  const role = await runtime.open();
  if (role === undefined) return false;
  ownLog.log = role;
  thread.addLog(role);
  return true;
}

void start(workerData as WorkerData, parentPort!);
