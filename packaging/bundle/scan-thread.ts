// A thread of piscina's pool, with what it runs.

import { provide } from "runnerbean:parts";
import "../../node_modules/piscina/dist/worker.js";
import scanWorker from "../../src/binlog/recovery/scan-worker.ts";
import { PARTS } from "./parts.ts";

provide(PARTS.scanWorker, { default: scanWorker });
