// Bystander: a client in its own thread that puts one job after another and records the delay of
// each reply: by the clock, and without the time in which this thread or those of the server had no
// core. The attacker, other programs and the bystander itself need cores, too.

import type { NetConnectOpts } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { FairTime } from "../support/machine/waited-for-cores.ts";
import { WireClient } from "../support/server/wire-client.ts";

const REPLY_MS = 120_000;

const { address, pid, stopped } = workerData as {
  address: NetConnectOpts;
  pid: number;
  stopped: Int32Array;
};
const client = await WireClient.connect(address);
await client.ask("use bystander");
parentPort!.postMessage("ready");
let [longestMs, longestByClockMs] = [0, 0];
while (Atomics.load(stopped, 0) === 0) {
  const time = new FairTime(pid);
  const beganMs = performance.now();
  client.send("put 0 0 60 1\r\nx\r\n");
  await client.readReply(REPLY_MS);
  longestByClockMs = Math.max(longestByClockMs, performance.now() - beganMs);
  longestMs = Math.max(longestMs, time.passedMs);
  await sleep(1);
}
client.close();
parentPort!.postMessage([longestMs, longestByClockMs]);
