// Weights of watched tubes, and the order in which the connection picks its jobs.

import { OrderView, WeightView } from "../../message/request.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import type { Request } from "../../protocol/request.ts";
import { ReserveOrder } from "../../protocol/reserve-order.ts";
import { SetOrder } from "../fanout/set-order.ts";
import type { ClientState } from "../migration/client-state.ts";
import { WatchOrder } from "../state/watch-order.ts";
import type { CommandParts } from "./command-parts.ts";

/** Moves the weight of a watch from its options to the field that the shard reads; 0 for none. */
export function readWeight(request: Request): number {
  const { options } = request;
  if (options.length === 0) return 0;
  const weight = optionNumber(options, OptionTag.Weight) ?? 0;
  options.clear();
  WeightView.fill(request, weight);
  return weight;
}

export function noteWeight(client: ClientState, tube: string, weight: number): void {
  client.order ??= new WatchOrder();
  client.order.weights.set(tube, weight);
}

/** Routes a reserve-order: to all shards. */
export function setOrder(
  { acceptor, client, pipeline, conversations }: CommandParts,
  request: Request,
): boolean {
  const order = OrderView.order(request);
  if (!pipeline.isIdle) return false;
  pipeline.count(request.op);
  if (order !== ReserveOrder.Strict) client.order ??= new WatchOrder();
  client.order?.begin(order);
  return conversations.begin(new SetOrder(conversations, acceptor.shards, order));
}
