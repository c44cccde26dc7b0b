// Messages about a connection that are not client commands.

import { assert } from "../../base/assert.ts";
import { MigrationView, RequestFlag, WatchView, WeightView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { ReplyWord, usingReply } from "../../protocol/reply.ts";
import { BarrierRounds, type ShardCommand } from "./command.ts";

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

// `use`: selects the tube of puts, kicks and peeks.

export const use: ShardCommand = ({ engine, replies }, session, { tube, flags }) => {
  const name = tube.text;
  engine.use(session.engineSession, name);
  if ((flags & RequestFlag.AckOnly) !== 0) replies.signal(session, ResponseKind.Ack);
  else replies.fixed(session, usingReply(name));
};

/** Ends the use of a tube, because the new one is on another shard. */
export const unuse: ShardCommand = ({ engine, replies }, session) => {
  engine.unuse(session.engineSession);
  replies.signal(session, ResponseKind.Ack);
};

// `watch`: adds a tube to the connection's watch list on this shard.

export const watch: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  const weight = WeightView.weight(request);
  const tube = request.tube.text;
  engine.watch(session.engineSession, tube);
  if (weight > 0) engine.weigh(session.engineSession, tube, weight, nowMs);
  replies.number(session, ReplyWord.watching, WatchView.watchedTubes(request));
};

// `ignore`: removes a tube from the connection's watch list on this shard.

export const ignore: ShardCommand = ({ engine, replies }, session, request) => {
  engine.ignore(session.engineSession, request.tube.text);
  replies.number(session, ReplyWord.watching, WatchView.watchedTubes(request));
};

// `reserve-order`: sets how the session picks its jobs on this shard.

export const reserveOrder: ShardCommand = ({ engine, replies, nowMs }, session, { order }) => {
  engine.setOrder(session.engineSession, order, nowMs);
  replies.signal(session, ResponseKind.Ack);
};

// `stats`: updates the counters of this shard.

const count: ShardCommand = (shard, session) => {
  shard.engine.runDue(shard.nowMs);
  shard.updateGauges();
  shard.replies.signal(session, ResponseKind.Ack);
};

/** Updates this shard's counters. The acceptor that asked adds up those of all shards. */
export const stats: ShardCommand = (shard, session, request) =>
  shard.afterReading(session, request, BarrierRounds.Uncounted, count);
