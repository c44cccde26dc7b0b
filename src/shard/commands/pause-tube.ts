// `pause-tube`: prevents reservations from a tube for a while.

import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const pauseTube: ShardCommand = ({ engine, replies, nowMs }, session, { tube, delaySeconds }) => {
  const found = engine.pause(tube.text, delaySeconds, nowMs);
  replies.fixed(session, found ? Reply.paused : Reply.notFound);
};
