// Name of the part that piscina's threads run; replaces src/binlog/recovery/scan-worker-file.ts.

import { PARTS } from "../parts.ts";

export const SCAN_WORKER = `runnerbean:${PARTS.scanWorker}`;
