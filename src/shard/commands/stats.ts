// `stats`: updates the counters of this shard.

import { ResponseKind } from "../../message/response.ts";
import type { ShardCommand } from "./command.ts";

/** Updates this shard's counters. The acceptor that asked adds up those of all shards. */
export const stats: ShardCommand = (shard, session) => {
  shard.engine.runDue(shard.nowMs);
  shard.updateGauges();
  shard.replies.signal(session, ResponseKind.Ack);
};
