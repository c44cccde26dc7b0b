// `stats`: updates the counters of this shard.

import { ResponseKind } from "../../message/response.ts";
import { BarrierRounds, type ShardCommand } from "./command.ts";

const count: ShardCommand = (shard, session) => {
  shard.engine.runDue(shard.nowMs);
  shard.updateGauges();
  shard.replies.signal(session, ResponseKind.Ack);
};

/** Updates this shard's counters. The acceptor that asked adds up those of all shards. */
export const stats: ShardCommand = (shard, session, request) =>
  shard.afterReading(session, request, BarrierRounds.Uncounted, count);
