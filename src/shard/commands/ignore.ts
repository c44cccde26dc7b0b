// `ignore`: removes a tube from the connection's watch list on this shard.

import { WatchView } from "../../message/request.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const ignore: ShardCommand = ({ engine, replies }, session, request) => {
  engine.ignore(session.engineSession, request.tube.text);
  replies.number(session, ReplyWord.watching, WatchView.watchedTubes(request));
};
