// A command on a batch that waits until every shard has reported to the batch's home.

import { assert } from "../../base/assert.ts";
import type { BatchRow, BatchTable } from "../../engine/state/batch-table.ts";
import { OpenBatchView } from "../../message/request.ts";
import { LIST_LIMIT_USUAL, OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { Reply } from "../../protocol/reply.ts";
import type { BatchCounts } from "../../schema/batch.ts";
import { BatchOutcome, BatchState } from "../../schema/batch.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import type { Asker } from "./batch-homes.ts";
import type { CommandShard, ShardCommand } from "./command.ts";

class AwaitRound implements SlicedCommand, Asker {
  readonly jobs = 1;
  readonly #number: number;
  readonly #finish: (counts: Readonly<BatchCounts> | undefined) => void;
  #counts: Readonly<BatchCounts> | undefined;
  #isAnswered = false;

  /** `number` is that of the batch; no job has it as its id. */
  constructor(number: number, finish: (counts: Readonly<BatchCounts> | undefined) => void) {
    assert(number > 0, "a round is about a batch with a number");
    this.#number = number;
    this.#finish = finish;
  }

  answer(counts: Readonly<BatchCounts> | undefined): void {
    assert(!this.#isAnswered, "a command gets one answer");
    this.#isAnswered = true;
    this.#counts = counts;
  }

  get awaitedJob(): number | undefined {
    return this.#isAnswered ? undefined : this.#number;
  }

  step(): boolean {
    return this.#isAnswered;
  }

  finish(): void {
    assert(this.#isAnswered, "a command ends with its answer");
    this.#finish(this.#counts);
  }
}

// Texts of inspect-batch and list-batches.

const STATES = ["forgotten", "open", "committed", "cancelled", "complete", "open"] as const;
const OUTCOMES = ["none", "success", "failure", "cancelled"] as const;

/** Returns the YAML of inspect-batch. `counts` are the sums of a round. */
function batchText(batch: BatchRow, counts: Readonly<BatchCounts>, nowMs: number): string {
  const { name, number, state, outcome, keepMs, openedAtMs, completeAtMs } = batch;
  const isComplete = state === BatchState.Complete;
  const open = isComplete ? 0 : counts.open;
  const done = isComplete ? batch.allDone : counts.done;
  const failed = isComplete ? batch.allFailed : counts.failed + counts.dead;
  const leftMs = isComplete ? Math.max(0, completeAtMs + keepMs - nowMs) : 0;
  assert(open >= 0 && done >= 0 && failed >= 0, "the members of a batch are counted");
  return `---
name: "${name}"
number: ${number}
state: ${STATES[state]}
outcome: ${OUTCOMES[outcome]}
members: ${open + done + failed}
open: ${open}
done: ${done}
failed: ${failed}
buried: ${isComplete ? 0 : counts.buried}
waiting: ${counts.waitingJobs}
keep: ${keepMs / 1000}
age: ${Math.max(0, Math.floor((nowMs - openedAtMs) / 1000))}
forgets-in: ${Math.ceil(leftMs / 1000)}
`;
}

/**
 * Returns the YAML of list-batches: batches with numbers above `after`, in the order of opening.
 * With `before`, only batches with numbers below it, in reverse order.
 */
function batchesText(
  batches: BatchTable,
  { after, before, limit }: { after: number; before: number | undefined; limit: number },
): string {
  const lines: string[] = [];
  const following = (last: number): BatchRow | undefined =>
    before === undefined ? batches.from(last + 1) : batches.before(last);
  let last = before ?? after;
  let batch = following(last);
  for (; batch !== undefined && batch.number > after && lines.length < limit; batch = following(last)) {
    const { name, number, state, outcome } = batch;
    lines.push(
      `- {name: "${name}", number: ${number}, state: ${STATES[state]}, outcome: ${OUTCOMES[outcome]}}\n`,
    );
    last = number;
  }
  assert(lines.length <= limit, "a page has no more batches than were asked for");
  const next = batch === undefined || batch.number <= after ? 0 : last;
  return `---\nnext: ${next}\nbatches:${lines.length === 0 ? " []\n" : `\n${lines.join("")}`}`;
}

// `open-batch`, `commit-batch`, `cancel-batch`, `inspect-batch`, `list-batches`. The home of the
// batch executes them, and answers when every shard knows what it decided.

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

function noSuchBatch(replies: ReplyWriter, session: ShardSession): void {
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
