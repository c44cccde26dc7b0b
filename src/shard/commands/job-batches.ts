// `open-batch`, `commit-batch`, `cancel-batch`, `inspect-batch`, `list-batches`. The home of the
// batch executes them, and answers when every shard knows what it decided.

import { assert } from "../../base/assert.ts";
import type { BatchRow } from "../../engine/flows/batch-row.ts";
import { OpenBatchView } from "../../message/request.ts";
import { type BatchCounts, BatchOutcome, BatchState } from "../../protocol/batch-facts.ts";
import { LIST_LIMIT_USUAL } from "../../protocol/job-options.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { Reply } from "../../protocol/reply.ts";
import { batchesText, batchText } from "../replies/batch-text.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import { AwaitRound } from "../slices/await-round.ts";
import type { CommandShard, ShardCommand } from "./command.ts";

/** Default time for which a complete batch is kept. */
const KEEP_MS = 86_400_000;

/** Cost of a byte of list-batches, in Engine.looks: a line takes a microsecond. */
const BYTE_LOOKS = 0.25;

/** Calls `answer` when all shards know the batch as it is now. */
function afterRound(
  { homes, replies, slicedCommands }: CommandShard,
  session: ShardSession,
  batch: BatchRow,
  answer: (counts: Readonly<BatchCounts> | undefined) => void,
): void {
  assert(batch.number > 0, "a batch with a round has a number");
  const round = new AwaitRound(batch.number, (counts) => {
    // The decision may come from an earlier command whose record is not durable yet.
    replies.dependOnAll();
    answer(counts);
  });
  homes.ask(batch, round);
  slicedCommands.join(session, round);
}

function noSuchBatch(replies: Replies, session: ShardSession): void {
  // Another client may have ended it a moment ago.
  replies.dependOnAll();
  replies.fixed(session, Reply.notFound);
}

/** Returns a command on a batch that must exist. */
function ofKnownBatch(
  run: (shard: CommandShard, session: ShardSession, batch: BatchRow) => void,
): ShardCommand {
  return (shard, session, { batch: name }) => {
    const batch = shard.engine.batches.named(name.text);
    if (batch === undefined) noSuchBatch(shard.replies, session);
    else run(shard, session, batch);
  };
}

export const openBatch: ShardCommand = (shard, session, request) => {
  const { batch: name, options } = request;
  const number = OpenBatchView.number(request);
  assert(number > 0, "a batch that is opened has a number");
  const { engine, homes, replies, nowMs } = shard;
  const known = engine.batches.named(name.text);
  if (known !== undefined) {
    // Another client may have opened it just now, and not all shards know it.
    afterRound(shard, session, known, () => replies.fixed(session, Reply.batchExists));
    return;
  }
  const batch = homes.open(name.text, number, optionNumber(options, OptionTag.Keep) ?? KEEP_MS, nowMs);
  assert(batch === undefined || batch.number === number, "a batch has the number that its command took");
  if (batch === undefined) replies.fixed(session, Reply.outOfMemory);
  else afterRound(shard, session, batch, () => replies.fixed(session, Reply.opened));
};

export const commitBatch: ShardCommand = ofKnownBatch((shard, session, batch) => {
  const { homes, replies } = shard;
  if (batch.state === BatchState.Open || batch.state === BatchState.Opening)
    homes.decide(batch, BatchState.Committed);
  const isCancelled = batch.state === BatchState.Cancelled || batch.outcome === BatchOutcome.Cancelled;
  const reply = isCancelled ? Reply.batchCancelled : Reply.committed;
  afterRound(shard, session, batch, () => replies.fixed(session, reply));
});

export const cancelBatch: ShardCommand = ofKnownBatch((shard, session, batch) => {
  const { homes, replies } = shard;
  const { outcome, state } = batch;
  const isOver = state === BatchState.Complete && outcome !== BatchOutcome.Cancelled;
  if (state !== BatchState.Complete && state !== BatchState.Cancelled)
    homes.decide(batch, BatchState.Cancelled);
  const reply = isOver ? Reply.batchComplete : Reply.cancelled;
  afterRound(shard, session, batch, () => replies.fixed(session, reply));
});

export const inspectBatch: ShardCommand = ofKnownBatch((shard, session, batch) => {
  const { replies } = shard;
  afterRound(shard, session, batch, (counts) => {
    if (counts === undefined) noSuchBatch(replies, session);
    else replies.text(session, batchText(batch, counts, shard.nowMs));
  });
});

export const listBatches: ShardCommand = ({ engine, replies }, session, { options }) => {
  assert(optionNumber(options, OptionTag.Limit) !== 0, "a list of batches has room for at least one");
  const after = optionNumber(options, OptionTag.After) ?? 0;
  const before = optionNumber(options, OptionTag.Before);
  const limit = optionNumber(options, OptionTag.Limit) ?? LIST_LIMIT_USUAL;
  engine.batches.takeLooks();
  const text = batchesText(engine.batches, { after, before, limit });
  engine.looks += engine.batches.takeLooks() + text.length * BYTE_LOOKS;
  replies.text(session, text);
};
