// `inspect-tube`: returns the facts about a tube that stats-tube lacks.

import { Reply } from "../../protocol/reply.ts";
import { inspectSettingsText, inspectTubeText } from "../replies/job-text.ts";
import type { ShardCommand } from "./command.ts";
import { afterReaders } from "./stats-tube.ts";

const tell: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const name = request.tube.text;
  const tube = engine.findTube(name);
  const policy = tube === undefined ? engine.settings.policyOf(name) : undefined;
  if (policy !== undefined) replies.text(session, inspectSettingsText(policy));
  else if (tube === undefined) replies.fixed(session, Reply.notFound);
  else replies.text(session, inspectTubeText(engine, tube, nowMs));
};

export const inspectTube: ShardCommand = afterReaders(tell);
