// `ignore`: takes a tube from those that its connection watches on this shard.

import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const ignore: ShardCommand = ({ engine, replies }, session, { tube, count }) => {
  engine.ignore(session.engineSession, tube.text);
  replies.number(session, ReplyWord.watching, count);
};
