// Messages about a connection that are not client commands.

import { assert } from "../../base/assert.ts";
import { MigrationView, RequestFlag } from "../../message/request.ts";
import type { ShardCommand } from "./command.ts";

export const attach: ShardCommand = ({ engine }, { engineSession }) => {
  assert(engineSession.watches.size === 0, "a new connection watches no tube yet");
  engine.use(engineSession, "default");
  engine.watch(engineSession, "default");
};

export const credit: ShardCommand = (shard, session, { meterBytes }) => shard.read(session, meterBytes);

/** Sends a reply that the acceptor has composed, in its place among the replies. */
export const echo: ShardCommand = ({ replies }, session, { body }) =>
  replies.bytes(session, body.bytes, body.start, body.length);

export const halfClose: ShardCommand = ({ engine, nowMs }, session) =>
  engine.halfClose(session.engineSession, nowMs);

export const detach: ShardCommand = (shard, session, request) =>
  shard.detach(session, MigrationView.move(request));

export const close: ShardCommand = (shard, session, { flags }) => {
  if (session.ended) return;
  session.engineSession.endsWithServer = (flags & RequestFlag.Stopping) !== 0;
  shard.end(session);
};
