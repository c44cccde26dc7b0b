// A thread of piscina's pool, with the code that it runs.

import { provide } from "runnerbean:parts";
import "../../node_modules/piscina/dist/worker.js";
import scanWorker from "../../src/binlog/recovery/scan-worker.ts";
import { PARTS } from "./parts.ts";

// piscina treats it as a CommonJS module, whose default export is the whole module.
provide(PARTS.scanWorker, scanWorker);
