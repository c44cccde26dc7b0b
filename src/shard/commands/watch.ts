// `watch`: adds a tube to the connection's watch list on this shard.

import { WatchView } from "../../message/request.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const watch: ShardCommand = ({ engine, replies }, session, request) => {
  engine.watch(session.engineSession, request.tube.text);
  replies.number(session, ReplyWord.watching, WatchView.watchedTubes(request));
};
