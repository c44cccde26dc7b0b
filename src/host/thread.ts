// The entry of a worker thread that serves: it hosts acceptors with the shards that live beside them, or a shard alone.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { AcceptorThread, type AcceptorThreadData } from "../acceptor/acceptor-thread.ts";
import type { Waiting } from "../loop/waiting-policy.ts";
import { ShardRuntime, type ShardRuntimeOptions } from "../shard/shard-runtime.ts";
import { runShard } from "../shard/shard-thread.ts";

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

function start(data: HostThreadData, port: MessagePort): void {
  if (data.kind === "shard") {
    port.postMessage("ready");
    runShard(data.shard, data.shard.waiting);
    return;
  }
  const residents = data.acceptors.residents.map((options) => new ShardRuntime(options));
  const thread = new AcceptorThread(data.acceptors);
  for (const resident of residents)
    resident.load(() => thread.addResident(resident.role, resident.shard, resident.arena));
}

start(workerData as HostThreadData, parentPort!);
