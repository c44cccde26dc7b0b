// Entry point of the HTTP thread.

import { parentPort, workerData } from "node:worker_threads";
import { keepTickMaps } from "../loop/keep-tick-maps.ts";
import type { HttpThreadData, HttpThreadPort } from "./http-thread.ts";

keepTickMaps();
void start();

/** Loads the thread's code, which takes long enough for a garbage collection, only now. */
async function start(): Promise<void> {
  const { HttpThread } = await import("./http-thread.ts");
  new HttpThread(workerData as HttpThreadData, parentPort as HttpThreadPort);
}
