// `inspect-tube`: tells about a tube what stats-tube does not.

import { Reply } from "../../protocol/reply.ts";
import { inspectTubeText } from "../work/job-text.ts";
import type { ShardCommand } from "./command.ts";

export const inspectTube: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const tube = engine.findTube(request.tube.text);
  if (tube === undefined) replies.fixed(session, Reply.notFound);
  else replies.text(session, inspectTubeText(engine, tube, nowMs));
};
