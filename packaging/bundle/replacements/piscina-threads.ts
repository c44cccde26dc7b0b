// Replaces node:worker_threads for piscina, so that its threads start from the bundle.

import { Worker, type WorkerOptions } from "node:worker_threads";
import { threadOf } from "runnerbean:parts";
import { PARTS } from "../parts.ts";

export {
  MessageChannel,
  MessagePort,
  parentPort,
  receiveMessageOnPort,
  threadId,
  workerData,
} from "node:worker_threads";

class PoolWorker extends Worker {
  constructor(_file: string, options: WorkerOptions) {
    super(...threadOf(PARTS.scanPool, options));
  }
}

export { PoolWorker as Worker };
