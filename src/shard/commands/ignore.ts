// `ignore`: removes a tube from the connection's watch list on this shard.

import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const ignore: ShardCommand = ({ engine, replies }, session, { tube, count }) => {
  engine.ignore(session.engineSession, tube.text);
  replies.number(session, ReplyWord.watching, count);
};
