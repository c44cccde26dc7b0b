// The entry of the http thread.

import { parentPort, workerData } from "node:worker_threads";
import { HttpThread, type HttpThreadData, type HttpThreadPort } from "./http-thread.ts";

new HttpThread(workerData as HttpThreadData, parentPort as HttpThreadPort);
