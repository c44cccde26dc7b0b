// The entry of a worker thread that serves: it hosts acceptors with the shards that live beside them, or a shard alone.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { AcceptorThreadData } from "../acceptor/acceptor-thread.ts";
import type { Waiting } from "../loop/waiting-policy.ts";
import type { ShardRuntime, ShardRuntimeOptions } from "../shard/shard-runtime.ts";

export interface ShardHostData extends ShardRuntimeOptions {
  recovery: MessagePort | undefined;
  waiting: Waiting;
}

export interface AcceptorHostData extends AcceptorThreadData {
  /** The shards that live in this thread. */
  residents: ShardRuntimeOptions[];
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
  const residents = await residentsOf(data.acceptors);
  const thread = new AcceptorThread(data.acceptors);
  for (const resident of residents)
    resident.load(() => thread.addResident(resident.role, resident.shard, resident.arena));
}

async function residentsOf({ residents }: AcceptorHostData): Promise<ShardRuntime[]> {
  if (residents.length === 0) return [];
  const { ShardRuntime } = await import("../shard/shard-runtime.ts");
  return residents.map((options) => new ShardRuntime(options));
}

await start(workerData as HostThreadData, parentPort!);
