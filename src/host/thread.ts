// The entry of a worker thread that serves: it hosts an acceptor with the shards that live beside it, or a shard alone.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { type AcceptorPort, AcceptorThread, type AcceptorThreadData } from "../acceptor/acceptor-thread.ts";
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
  | { readonly kind: "acceptor"; readonly acceptor: AcceptorHostData };

function start(data: HostThreadData, port: MessagePort): void {
  if (data.kind === "shard") {
    port.postMessage("ready");
    runShard(data.shard, data.shard.waiting);
    return;
  }
  const residents = data.acceptor.residents.map((options) => new ShardRuntime(options));
  const acceptor = new AcceptorThread(data.acceptor, port as AcceptorPort);
  for (const resident of residents)
    resident.load(() => acceptor.addResident(resident.role, resident.shard, resident.arena));
}

start(workerData as HostThreadData, parentPort!);
