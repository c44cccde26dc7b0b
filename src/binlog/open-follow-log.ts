// Opens a directory as the log of a standby: finishes a cut, judges the log, and refuses damage.

import { segmentNumber } from "../base/segment-name.ts";
import { asBinlogError } from "./disk/binlog-error.ts";
import { FollowLog } from "./follow-log.ts";
import { finishCut } from "./follow-segments.ts";
import { openBinlog } from "./open-binlog.ts";
import type { LogProblem, LogVerdict } from "./recovery/log-verdict.ts";
import type { OpenOptions } from "./recovery/open-options.ts";
import { readLog } from "./recovery/read-log.ts";

/**
 * The directory must be locked. Records up to `adoptAfter` are the directory's own jobs, whatever
 * batches they came in. Throws a BinlogError.
 */
export async function openFollowLog(
  options: OpenOptions,
  adoptAfter: number,
  extentBytes?: number,
): Promise<FollowLog> {
  try {
    finishCut(options, extentBytes);
    let verdict = await judged(options);
    // The directory has jobs of its own: repair the log as usual after a crash, so that the group
    // begins after it.
    if (!holdsChain(verdict, adoptAfter) && verdict.kept.length > 0) {
      (await openBinlog({ ...options, chain: undefined })).storage.close(0);
      verdict = await judged(options);
    }
    return new FollowLog(options, verdict, adoptAfter, extentBytes);
  } catch (error) {
    throw asBinlogError(error, options.disk.path);
  }
}

function holdsChain(verdict: LogVerdict, adoptAfter: number): boolean {
  return verdict.kept.some(({ batches }) => batches.some(({ header }) => header.sequence > adoptAfter));
}

async function judged(options: OpenOptions): Promise<LogVerdict> {
  const { verdict } = await readLog(options, false);
  const problem = verdict.problems.find((each) => !isYetToCome(each, options));
  if (problem !== undefined) throw problem.error;
  return verdict;
}

/**
 * Returns whether a missing segment may still arrive. A node that started with the first message of
 * the shared log lacks the segments before it until the leader rewrites them. A server outside a
 * group refuses such a directory, because nothing would bring the segments.
 */
function isYetToCome({ error, segment }: LogProblem, { disk }: OpenOptions): boolean {
  if (error.code !== "BINLOG_MISSING_FILE") return false;
  return disk.names().every((name) => segmentNumber(name) === 0 || segmentNumber(name) > segment);
}
