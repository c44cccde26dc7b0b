// `stats`: brings the counters of this shard up to date.

import { ResponseKind } from "../../message/response.ts";
import type { ShardCommand } from "./command.ts";

/** This shard's part: the acceptor that asked adds up the counters of all. */
export const stats: ShardCommand = (shard, session) => {
  shard.engine.runDue(shard.nowMs);
  shard.updateGauges();
  shard.replies.signal(session, ResponseKind.Ack);
};
