// Entry point of the http thread.

import { parentPort, workerData } from "node:worker_threads";
import { keepTickMaps } from "../loop/keep-tick-maps.ts";
import type { HttpThreadData, HttpThreadPort } from "./http-thread.ts";

keepTickMaps();
// A dynamic import, which runs after this call and takes long enough for a garbage collection.
const { HttpThread } = await import("./http-thread.ts");
new HttpThread(workerData as HttpThreadData, parentPort as HttpThreadPort);
