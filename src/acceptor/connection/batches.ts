// Batches of jobs: reserve-batch, which the client's next byte may abort, and delete-batch.

import { BATCH_DETAILS, BatchView, RequestFlag, RequestOp } from "../../message/request.ts";
import { BATCH_BYTES_MAX, U32_MAX } from "../../protocol/limits.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import type { Request } from "../../protocol/request.ts";
import { UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import { PickBatch } from "../fanout/batch/pick-batch.ts";
import { DeleteBatch, onlyShardOf } from "../fanout/delete-batch.ts";
import type { ClientState } from "../migration/client-state.ts";
import type { CommandParts } from "./command-parts.ts";
import type { Pipeline } from "./pipeline.ts";

/** Bytes of a redirected delete-batch besides the ids and one byte for each. */
const DELETE_BATCH_ROOM = 64;

/**
 * Moves the options of a reserve-batch into the fields that its shard reads. Returns whether the
 * client may abort the wait.
 */
export function readBatchOptions(request: Request): boolean {
  const { options } = request;
  const bytes = optionNumber(options, OptionTag.Bytes) ?? BATCH_BYTES_MAX;
  BatchView.limitBytes(request, Math.min(bytes, BATCH_BYTES_MAX));
  request.flags =
    RequestFlag.Batch |
    (optionNumber(options, OptionTag.Tubes) === undefined ? 0 : RequestFlag.Tubes) |
    (optionNumber(options, OptionTag.WithMeta) === undefined ? 0 : RequestFlag.Meta);
  const mayAbort = optionNumber(options, OptionTag.Abort) !== undefined;
  options.clear();
  return mayAbort;
}

/** Notes that the client's next byte aborts the batch that was just sent. */
export function beginAbortable(client: ClientState, pipeline: Pipeline): void {
  pipeline.abortable = client.nextBatchNumber;
  client.nextBatchNumber = (client.nextBatchNumber % U32_MAX) + 1;
}

/** Aborts the wait of an abortable batch, because the client has sent more bytes. */
export function abortBatch({ acceptor, pipeline, conversations }: CommandParts): void {
  const number = pipeline.abortable;
  if (number === 0) return;
  pipeline.abortable = 0;
  // An earlier command may be redirected while the batch waits for its turn.
  if (pipeline.conversation === undefined || conversations.isRedirected) {
    const abort = pipeline.message(RequestOp.Abort);
    BatchView.setNumber(abort, number);
    pipeline.post(pipeline.inFlight.shard, abort);
    acceptor.pendingReplies.expect(pipeline);
  } else pipeline.conversation.onInput?.();
}

/** Returns the picker of a reserve-batch over several shards. */
export function batchPicker({ acceptor, client, conversations }: CommandParts, request: Request): PickBatch {
  const limits = {
    jobsMax: BatchView.jobsMax(request),
    bytesMax: BatchView.bytesMax(request),
    details: request.flags & BATCH_DETAILS,
  };
  return new PickBatch(conversations, limits, acceptor.listReplies, acceptor.gatherBudget, client.order);
}

/** Routes a delete-batch: to the shard of all its jobs or, with a conversation, to several. */
export function deleteBatch({ acceptor, pipeline, conversations }: CommandParts, request: Request): boolean {
  const { links, places } = acceptor;
  const { op, ids } = request;
  // If the shard lacks some of the jobs, the batch comes back with one byte for each id.
  if (ids.length + request.count + DELETE_BATCH_ROOM <= links.payloadBytesMax) {
    const shard = onlyShardOf(ids, places);
    if (shard !== UNKNOWN_SHARD)
      return pipeline.inFlight.mayCarry(shard, ids.length) && pipeline.sendCounted(shard, request);
  }
  if (!pipeline.isIdle) return false;
  pipeline.count(op);
  return conversations.begin(new DeleteBatch(conversations, places, ids));
}
