// The state of a connection that moves with it to another acceptor.

import { ShardSet } from "../state/shard-set.ts";
import { TubeRef } from "../state/tube-ref.ts";
import { WatchList } from "../state/watch-list.ts";
import { WatchOrder } from "../state/watch-order.ts";
import type { ConnectionState, MigrationHistory, MovedOrder } from "./moved-connection.ts";

export class ClientState {
  used: TubeRef;
  readonly watched: WatchList;
  /** How it picks its jobs, if not in beanstalkd's way. */
  order: WatchOrder | undefined;
  /** Shards that know the connection. */
  readonly touched: ShardSet = new ShardSet();
  isProducer = false;
  isWorker = false;
  /** The number of the next abortable batch. */
  nextBatchNumber = 1;
  /** In monotonic ms. */
  readonly openedAtMs: number;
  /** Address and port of the client: see ConnectionContext. */
  peer: string | undefined;
  /** Name of the token with which the client authenticated. Such connections don't move. */
  owner: string | undefined;
  /** Whether that token, if there is one, may see the texts of jobs. */
  seesTexts = true;
  /** The name that the client gave itself. */
  name: string | undefined;
  /** Index of its listener: see ConnectionContext. */
  listener: number | undefined;
  history: MigrationHistory = { migrations: 0, mayMigrateAtMs: 0 };
  readonly #shards: number;

  /** `moved` is the state from another acceptor. A new client uses and watches `defaultTube`. */
  constructor(shards: number, defaultTube: TubeRef, nowMs: number, moved?: ConnectionState) {
    this.#shards = shards;
    this.watched = new WatchList(shards);
    this.openedAtMs = moved?.openedAtMs ?? nowMs;
    this.used = moved === undefined ? defaultTube : new TubeRef(moved.used, shards);
    if (moved === undefined) this.watched.add(defaultTube);
    else this.#restore(moved);
  }

  #restore({ watched, touched, isProducer, isWorker, ...rest }: ConnectionState): void {
    for (const name of watched) this.watched.add(new TubeRef(name, this.#shards));
    if (rest.order !== undefined) this.order = restored(rest.order, watched);
    for (const shard of touched) this.touched.add(shard);
    this.isProducer = isProducer;
    this.isWorker = isWorker;
    this.nextBatchNumber = rest.nextBatchNumber;
    this.history = rest.history;
    this.peer = rest.peer;
    this.name = rest.name;
    this.listener = rest.listener;
  }

  #movedOrder(): MovedOrder | undefined {
    if (this.order === undefined) return undefined;
    const { order, floor } = this.order;
    return { order, floor, weights: this.watched.tubes.map(({ name }) => this.order!.weightOf(name)) };
  }

  /** Returns the state as a message to another acceptor. */
  message(history: MigrationHistory): ConnectionState {
    return {
      used: this.used.name,
      watched: this.watched.tubes.map(({ name }) => name),
      order: this.#movedOrder(),
      touched: this.touched.list(this.#shards),
      isProducer: this.isProducer,
      isWorker: this.isWorker,
      nextBatchNumber: this.nextBatchNumber,
      openedAtMs: this.openedAtMs,
      peer: this.peer,
      name: this.name,
      listener: this.listener,
      history,
    };
  }
}

function restored({ order, floor, weights }: MovedOrder, watched: readonly string[]): WatchOrder {
  const restored = new WatchOrder();
  restored.begin(order);
  restored.raiseFloor(floor);
  for (const [position, tube] of watched.entries()) restored.weigh(tube, weights[position]!);
  return restored;
}
