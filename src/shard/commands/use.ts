// `use`: selects the tube of puts, kicks and peeks.

import { RequestFlag } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { usingReply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const use: ShardCommand = ({ engine, replies }, session, { tube, flags }) => {
  const name = tube.text;
  engine.use(session.engineSession, name);
  if ((flags & RequestFlag.AckOnly) !== 0) replies.signal(session, ResponseKind.Ack);
  else replies.fixed(session, usingReply(name));
};

/** Ends the use of a tube, because the new one is on another shard. */
export const unuse: ShardCommand = ({ engine, replies }, session) => {
  engine.unuse(session.engineSession);
  replies.signal(session, ResponseKind.Ack);
};
