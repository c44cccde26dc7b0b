// `watch`: adds a tube to the connection's watch list on this shard.

import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const watch: ShardCommand = ({ engine, replies }, session, { tube, count }) => {
  engine.watch(session.engineSession, tube.text);
  replies.number(session, ReplyWord.watching, count);
};
