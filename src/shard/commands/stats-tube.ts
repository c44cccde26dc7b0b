// `stats-tube`: returns the statistics of a tube.

import { Reply } from "../../protocol/reply.ts";
import { statsTubeText } from "../replies/job-text.ts";
import type { ShardCommand } from "./command.ts";

export const statsTube: ShardCommand = ({ engine, replies, nowMs, quoteNames }, session, request) => {
  engine.runDue(nowMs);
  const tube = engine.findTube(request.tube.text);
  if (tube === undefined) replies.fixed(session, Reply.notFound);
  else replies.text(session, statsTubeText(engine, tube, nowMs, quoteNames));
};
