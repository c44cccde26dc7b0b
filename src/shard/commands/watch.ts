// `watch`: adds a tube to the connection's watch list on this shard.

import { WatchView, WeightView } from "../../message/request.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const watch: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  const weight = WeightView.weight(request);
  const tube = request.tube.text;
  engine.watch(session.engineSession, tube);
  if (weight > 0) engine.weigh(session.engineSession, tube, weight, nowMs);
  replies.number(session, ReplyWord.watching, WatchView.watchedTubes(request));
};
