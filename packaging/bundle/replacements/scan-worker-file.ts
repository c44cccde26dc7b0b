// Name of what piscina's threads run: instead of src/binlog/recovery/scan-worker-file.ts.

import { PARTS } from "../parts.ts";

export const SCAN_WORKER = `runnerbean:${PARTS.scanWorker}`;
