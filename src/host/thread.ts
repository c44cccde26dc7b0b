// The entry of a worker thread that serves: it hosts acceptors with the shards that live beside them and maybe the log, or a
// shard alone.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { AcceptorThread, AcceptorThreadData } from "../acceptor/acceptor-thread.ts";
import type { BinlogData, BinlogNews } from "../binlog/binlog-runtime.ts";
import type { Waiting } from "../loop/waiting-policy.ts";
import type { OwnLog } from "../shard/record-room.ts";
import type { ShardRuntime, ShardRuntimeOptions } from "../shard/shard-runtime.ts";

export interface ShardHostData extends ShardRuntimeOptions {
  recovery: MessagePort | undefined;
  waiting: Waiting;
}

export interface AcceptorHostData extends AcceptorThreadData {
  /** The shards that live in this thread. */
  residents: ShardRuntimeOptions[];
  /** The log, if it lives here. */
  log: LogHostData | undefined;
}

export interface LogHostData extends BinlogData {
  /** As that of a thread of its own to the main thread. */
  port: MessagePort;
}

export type HostThreadData =
  | { readonly kind: "shard"; readonly shard: ShardHostData }
  | { readonly kind: "acceptors"; readonly acceptors: AcceptorHostData };

/** Loads what lives in this thread and nothing else: reading code is most of what a start takes, in each thread anew. */
async function start(data: HostThreadData, port: MessagePort): Promise<void> {
  if (data.kind === "shard") {
    const { runShard } = await import("../shard/shard-thread.ts");
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
  // Not one by one: what is due at the start fills the ring of a shard to the log, which takes nothing before all shards have their
  // jobs, and who waits for room there waits in the thread that the others need to get theirs.
  for (const { role, shard, arena } of residents) thread.addResident(role, shard, arena);
}

async function residentsOf(
  { residents }: AcceptorHostData,
  ownLog: OwnLog | undefined,
): Promise<ShardRuntime[]> {
  if (residents.length === 0) return [];
  const { ShardRuntime } = await import("../shard/shard-runtime.ts");
  return residents.map((options) => new ShardRuntime(options, ownLog));
}

/** Opens the log when it is told to, and gives it its turns, once all shards have their jobs; false if it can't be opened. */
async function openLog(
  { port, ...log }: LogHostData,
  ownLog: OwnLog,
  thread: AcceptorThread,
): Promise<boolean> {
  const { BinlogRuntime } = await import("../binlog/binlog-runtime.ts");
  const { ColocatedLog } = await import("../binlog/colocated-log.ts");
  const tell = (news: BinlogNews): void => port.postMessage(news);
  const runtime = new BinlogRuntime(log, tell);
  const told = new Promise((resolve) => port.once("message", resolve));
  tell({ news: "loaded" });
  await told;
  const role = await runtime.open();
  if (role === undefined) return false;
  const resident = new ColocatedLog(role, () => runtime.close());
  ownLog.log = resident;
  thread.addLog(resident);
  return true;
}

await start(workerData as HostThreadData, parentPort!);
