// `reserve` and `reserve-with-timeout` on this shard alone.

import { RequestFlag } from "../../message/request.ts";
import { PrepareOrder } from "../slices/prepare-order.ts";
import type { ShardCommand } from "./command.ts";

/** Executes a reserve whose watched tubes and held jobs are all on this shard. */
export const reserve: ShardCommand = (shard, session, request) => {
  const timeoutMs = (request.flags & RequestFlag.NoWait) !== 0 ? 0 : request.timeoutMs;
  if (timeoutMs > 0 || !shard.beginBarrier(session)) shard.reserve(session, timeoutMs);
};

/** Returns a command that first prepares the order of its session, if that takes long. */
export function inOrder(command: ShardCommand): ShardCommand {
  return (shard, session, request) => {
    if (!shard.engine.needsOrder(session.engineSession)) {
      command(shard, session, request);
      return;
    }
    const { engine, replies, slicedCommands, nowMs } = shard;
    const kept = request.clone();
    const finish = (): void => {
      replies.request = kept;
      command(shard, session, kept);
    };
    slicedCommands.start(session, new PrepareOrder(engine, session, finish), nowMs);
  };
}
