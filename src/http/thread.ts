// Entry point of the HTTP thread.

import { parentPort, workerData } from "node:worker_threads";
import { keepTickMaps } from "../loop/keep-tick-maps.ts";
import { EarlyPort } from "./early-port.ts";
import type { HttpThreadData, HttpThreadPort } from "./http-thread.ts";

keepTickMaps();
void start();

/**
 * Opens the ports, and only then loads the thread's code, which takes longer than all else that the
 * server starts with.
 */
async function start(): Promise<void> {
  const data = workerData as HttpThreadData;
  const port = parentPort as HttpThreadPort;
  const early = await Promise.all([data, ...data.also].map(({ address }) => EarlyPort.open(address)));
  if (!early.includes(undefined)) port.postMessage({ news: "bound" });
  const { HttpThread } = await import("./http-thread.ts");
  new HttpThread(data, port, early);
}
