// Thread that judges histories, so that the clients' clock is not disturbed.

import { parentPort } from "node:worker_threads";
import { checkHistory } from "./check-history.ts";
import type { History } from "./operation.ts";

parentPort!.on("message", (history: History) => parentPort!.postMessage(checkHistory(history)));
