// `list-tubes`: the tubes of this shard, for the acceptor that merges the lists of all.

import { BarrierRounds, type ShardCommand } from "./command.ts";

const list: ShardCommand = ({ lists }, session) => lists.begin(session);

/** Sends this shard's part, in several turns. */
export const listTubes: ShardCommand = (shard, session, request) =>
  shard.afterReading(session, request, BarrierRounds.Read, list);
