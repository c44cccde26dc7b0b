// `reserve-order`: sets how the session picks its jobs on this shard.

import { OrderView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import type { ShardCommand } from "./command.ts";

export const reserveOrder: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  engine.setOrder(session.engineSession, OrderView.order(request), nowMs);
  replies.signal(session, ResponseKind.Ack);
};
