// A thread of piscina's pool, with what it runs.

import { provide } from "runnerbean:parts";
import "../../node_modules/piscina/dist/worker.js";
import scanWorker from "../../src/binlog/recovery/scan-worker.ts";
import { PARTS } from "./parts.ts";

// To piscina, it is a CommonJS module, whose default export is all of it.
provide(PARTS.scanWorker, scanWorker);
