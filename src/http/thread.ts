// The entry of the http thread.

import { parentPort, workerData } from "node:worker_threads";
import { keepTickMaps } from "../loop/keep-tick-maps.ts";
import type { HttpThreadData, HttpThreadPort } from "./http-thread.ts";

keepTickMaps();
// Loaded behind it: that is long enough for a collection.
const { HttpThread } = await import("./http-thread.ts");
new HttpThread(workerData as HttpThreadData, parentPort as HttpThreadPort);
