// The tubes that a connection uses and watches, their weights, and the order of its reserves.

import { latin1 } from "../../base/bytes.ts";
import { WatchView, WeightView } from "../../message/request.ts";
import { Op } from "../../protocol/commands.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { Reply, usingReply, watchingReply } from "../../protocol/reply.ts";
import type { Request } from "../../protocol/request.ts";
import { ReserveOrder } from "../../protocol/reserve-order.ts";
import { AwaitAcks } from "../fanout/await-acks.ts";
import { MoveUse } from "../fanout/move-use.ts";
import type { ClientState } from "../migration/client-state.ts";
import { TubeRef } from "../state/tube-ref.ts";
import { WatchOrder } from "../state/watch-order.ts";
import type { CommandParts } from "./command-parts.ts";

export function changeTubes(connection: CommandParts, request: Request): boolean {
  if (request.op === Op.Use) return use(connection, request);
  if (request.op === Op.Watch) return watch(connection, request);
  if (request.op === Op.ReserveOrder) return setOrder(connection, request);
  return ignore(connection, request);
}

function use({ acceptor, client, pipeline, conversations }: CommandParts, request: Request): boolean {
  const { bytes, start, end } = request.tube;
  const { used } = client;
  if (used.is(bytes, start, end)) return pipeline.answer(Op.Use, usingReply(used.name));
  const tube = new TubeRef(latin1(bytes, start, end), acceptor.shards);
  if (tube.shard === used.shard) {
    if (!pipeline.sendCounted(tube.shard, request)) return false;
  } else {
    if (!pipeline.isIdle) return false;
    conversations.begin(new MoveUse(conversations, used, tube));
  }
  client.used = tube;
  return true;
}

function watch({ acceptor, client, pipeline }: CommandParts, request: Request): boolean {
  const { watched } = client;
  const { bytes, start, end } = request.tube;
  const weight = readWeight(request);
  const position = watched.find(bytes, start, end);
  if (position >= 0 && weight === 0) return pipeline.answer(Op.Watch, watchingReply(watched.size));
  const known = watched.tubes[position];
  const tube = known ?? new TubeRef(latin1(bytes, start, end), acceptor.shards);
  WatchView.fill(request, watched.size + (known === undefined ? 1 : 0));
  if (!pipeline.sendCounted(tube.shard, request)) return false;
  if (known === undefined) watched.add(tube);
  if (weight > 0) noteWeight(client, tube.name, weight);
  return true;
}

function ignore({ client, pipeline }: CommandParts, request: Request): boolean {
  const { watched } = client;
  const { bytes, start, end } = request.tube;
  const position = watched.find(bytes, start, end);
  if (position < 0) return pipeline.answer(Op.Ignore, watchingReply(watched.size));
  if (watched.size === 1) return pipeline.answer(Op.Ignore, Reply.notIgnored);
  WatchView.fill(request, watched.size - 1);
  const tube = watched.tubes[position]!;
  if (!pipeline.sendCounted(tube.shard, request)) return false;
  client.order?.forget(tube.name);
  watched.removeAt(position);
  return true;
}

/** Moves the weight of a watch from its options to the field that the shard reads; 0 for none. */
function readWeight(request: Request): number {
  const { options } = request;
  if (options.length === 0) return 0;
  const weight = optionNumber(options, OptionTag.Weight) ?? 0;
  options.clear();
  WeightView.fill(request, weight);
  return weight;
}

function noteWeight(client: ClientState, tube: string, weight: number): void {
  client.order ??= new WatchOrder();
  client.order.weigh(tube, weight);
}

/**
 * Routes a reserve-order: to all shards, because any of them may own a tube that the connection
 * watches later.
 */
function setOrder({ acceptor, client, pipeline, conversations }: CommandParts, request: Request): boolean {
  const { order } = request;
  if (!pipeline.isIdle) return false;
  pipeline.count(request.op);
  if (order !== ReserveOrder.Strict) client.order ??= new WatchOrder();
  client.order?.begin(order);
  const message = (): Request => {
    const each = conversations.message(Op.ReserveOrder);
    each.order = order;
    return each;
  };
  const answer = (): void => conversations.finishConversation(Reply.set);
  return conversations.begin(new AwaitAcks(conversations, Array(acceptor.shards).keys(), message, answer));
}
