// From a directory to the log of a node that follows: finishes a cut, judges what there is, and refuses damage.

import { asBinlogError } from "./disk/binlog-error.ts";
import { FollowLog, finishCut } from "./follow-log.ts";
import { segmentNumber } from "./format/segment-format.ts";
import { openBinlog } from "./open-binlog.ts";
import type { LogProblem, LogVerdict } from "./recovery/log-verdict.ts";
import type { OpenOptions } from "./recovery/open-options.ts";
import { readLog } from "./recovery/read-log.ts";

/**
 * The directory must be locked. `adoptAfter`: records up to this one are jobs of its own, whatever batches they came in. Throws a
 * BinlogError.
 */
export async function openFollowLog(
  options: OpenOptions,
  adoptAfter: number,
  extentBytes?: number,
): Promise<FollowLog> {
  try {
    finishCut(options, extentBytes);
    let verdict = await judged(options);
    // Jobs of its own: what a crash left is repaired as ever, so that the group begins behind it.
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
 * A node that has begun with the first message of the shared log lacks the segments before it, until they are written again. Damage it
 * is elsewhere, where nobody brings them: a server without a group refuses such a directory.
 */
function isYetToCome({ error, segment }: LogProblem, { disk }: OpenOptions): boolean {
  if (error.code !== "BINLOG_MISSING_FILE") return false;
  return disk.names().every((name) => segmentNumber(name) === 0 || segmentNumber(name) > segment);
}
