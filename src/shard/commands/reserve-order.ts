// `reserve-order`: sets how the session picks its jobs on this shard.

import { ResponseKind } from "../../message/response.ts";
import type { ShardCommand } from "./command.ts";

export const reserveOrder: ShardCommand = ({ engine, replies, nowMs }, session, { order }) => {
  engine.setOrder(session.engineSession, order, nowMs);
  replies.signal(session, ResponseKind.Ack);
};
