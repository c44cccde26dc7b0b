// Entry point of the http thread.

import { parentPort, workerData } from "node:worker_threads";
import { keepTickMaps } from "../loop/keep-tick-maps.ts";
import type { HttpThreadData, HttpThreadPort } from "./http-thread.ts";

keepTickMaps();
// Imported only now: loading takes long enough for a garbage collection, which must not come first.
const { HttpThread } = await import("./http-thread.ts");
new HttpThread(workerData as HttpThreadData, parentPort as HttpThreadPort);
