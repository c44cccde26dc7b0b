// `reserve` and `reserve-with-timeout` on this shard alone.

import { RequestFlag } from "../../message/request.ts";
import type { ShardCommand } from "./command.ts";

/** Executes a reserve whose watched tubes and held jobs are all on this shard. */
export const reserve: ShardCommand = (shard, session, request) => {
  const timeoutMs = (request.flags & RequestFlag.NoWait) !== 0 ? 0 : request.timeoutMs;
  if (timeoutMs > 0 || !shard.beginBarrier(session)) shard.reserve(session, timeoutMs);
};
