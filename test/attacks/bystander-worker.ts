// Bystander: a client in its own thread that puts one job after another and records the delay of
// each reply.

import type { NetConnectOpts } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { WireClient } from "../support/server/wire-client.ts";

const REPLY_MS = 120_000;

const { address, stopped } = workerData as { address: NetConnectOpts; stopped: Int32Array };
const client = await WireClient.connect(address);
await client.ask("use bystander");
parentPort!.postMessage("ready");
let longestMs = 0;
while (Atomics.load(stopped, 0) === 0) {
  const beganMs = performance.now();
  client.send("put 0 0 60 1\r\nx\r\n");
  await client.readReply(REPLY_MS);
  longestMs = Math.max(longestMs, performance.now() - beganMs);
  await sleep(1);
}
client.close();
parentPort!.postMessage(longestMs);
