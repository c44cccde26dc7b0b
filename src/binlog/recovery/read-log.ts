// Reads the log of a directory: scans, judges and books it without changing anything.

import { bookRecords, type LogBooks } from "./log-recovery.ts";
import { judgeLog, type LogVerdict } from "./log-verdict.ts";
import type { OpenOptions } from "./open-options.ts";
import { scanLog } from "./scan-log.ts";

/** Returns the verdict on the log, and its books. */
export async function readLog(
  options: Pick<OpenOptions, "disk" | "parallel" | "progress" | "stopping">,
  salvage: boolean,
): Promise<{ verdict: LogVerdict; books: LogBooks }> {
  const scans = await scanLog({ ...options, salvage });
  const verdict = judgeLog(scans, options.disk.path);
  return { verdict, books: bookRecords(verdict) };
}
