// From a directory to what its log says: scanned, judged and booked, with nothing changed.

import { bookRecords, type LogBooks } from "./log-recovery.ts";
import { judgeLog, type LogVerdict } from "./log-verdict.ts";
import type { OpenOptions } from "./open-options.ts";
import { scanLog } from "./scan-log.ts";

/** Scans and judges without changing anything. */
export async function readLog(
  options: Pick<OpenOptions, "disk" | "parallel" | "progress" | "stopping">,
  salvage: boolean,
): Promise<{ verdict: LogVerdict; books: LogBooks }> {
  const scans = await scanLog({ ...options, salvage });
  const verdict = judgeLog(scans, options.disk.path);
  return { verdict, books: bookRecords(verdict) };
}
