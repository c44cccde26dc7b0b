// `stats-tube`: returns the statistics of a tube.

import { RequestFlag } from "../../message/request.ts";
import { Reply } from "../../protocol/reply.ts";
import { statsTubeText } from "../replies/job-text.ts";
import { BarrierRounds, type ShardCommand } from "./command.ts";

const tell: ShardCommand = ({ engine, replies, nowMs, quoteNames }, session, request) => {
  engine.runDue(nowMs);
  const tube = engine.findTube(request.tube.text);
  if (tube === undefined) replies.fixed(session, Reply.notFound);
  else replies.text(session, statsTubeText(engine, tube, nowMs, quoteNames));
};

/**
 * Runs a command about a tube after a read barrier. In a pipeline only the first asks for one: its
 * client has waited for nothing since.
 */
export function afterReaders(command: ShardCommand): ShardCommand {
  return (shard, session, request) => {
    if ((request.flags & RequestFlag.First) === 0) command(shard, session, request);
    else shard.afterReading(session, request, BarrierRounds.Read, command);
  };
}

export const statsTube: ShardCommand = afterReaders(tell);
