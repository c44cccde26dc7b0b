// What an acceptor tells of a connection, besides its commands.

import type { ShardCommand } from "./command.ts";

export const attach: ShardCommand = ({ engine }, { engineSession }) => {
  engine.use(engineSession, "default");
  engine.watch(engineSession, "default");
};

export const credit: ShardCommand = (shard, session, { readBytes }) => shard.read(session, readBytes);

/** A reply that the acceptor knew, in its turn. */
export const echo: ShardCommand = ({ replies }, session, { body }) =>
  replies.bytes(session, body.bytes, body.start, body.length);

export const halfClose: ShardCommand = ({ engine, nowMs }, session) =>
  engine.halfClose(session.engineSession, nowMs);

export const detach: ShardCommand = (shard, session, { id }) => shard.detach(session, id);

export const close: ShardCommand = (shard, session) => {
  if (!session.ended) shard.end(session);
};
