// Dissolves a group by hand: appends a LEAD of no node, after which no server of the group takes
// the lead.

import { Memory } from "../base/bytes.ts";
import {
  encodeLogBatchHeader,
  LOG_BATCH_HEADER_BYTES,
  type LogBatchHeader,
  LogBatchKind,
  logBatchesOf,
  sealLogBatch,
} from "../message/log-batch.ts";
import { DETACHED, follows, LogError, newTag, placeBefore, type SharedLog } from "./shared-log.ts";

/** Number of attempts: the primary may append or purge in between. */
const TRIES = 50;

export async function detach(log: Pick<SharedLog, "ends" | "read" | "append">): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      return await tryDetach(log);
    } catch (error) {
      const isOvertaken = error instanceof LogError && (error.kind === "refused" || error.kind === "purged");
      if (!isOvertaken || tries === TRIES) throw error;
    }
  }
}

async function tryDetach(log: Pick<SharedLog, "ends" | "read" | "append">): Promise<string> {
  const { first, last } = await log.ends();
  let tail: LogBatchHeader | undefined;
  for await (const { bytes } of log.read(Math.max(1, first), last))
    for (const { header } of logBatchesOf(bytes) ?? [])
      if (tail === undefined || follows(tail, header)) tail = checkedFirst(tail, header);
  if (tail === undefined) throw new Error("the group has not been started: there is nothing to detach from");
  const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES);
  encodeLogBatchHeader(memory, 0, {
    ...tail,
    kind: LogBatchKind.lead,
    epoch: tail.epoch + 1,
    n: tail.n + 1,
    previousTag: tail.tag,
    tag: newTag(Math.random),
    sequence: tail.sequence + tail.frames + 1,
    frames: 0,
    bodyBytes: 0,
    node: DETACHED,
    unacknowledged: 0,
    message: 0,
  });
  sealLogBatch(memory, 0);
  await log.append(memory.bytes, last);
  return `No server of the group takes the lead from now on. Start one of them without --replicate; "replica reseed" makes it a group again.`;
}

function checkedFirst(tail: LogBatchHeader | undefined, header: LogBatchHeader): LogBatchHeader {
  if (tail === undefined && !follows(placeBefore(header), header))
    throw new Error("the first message is not valid");
  return header;
}
