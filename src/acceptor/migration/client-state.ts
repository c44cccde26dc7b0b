// The state of a connection that moves with it to another acceptor.

import type { ReserveOrder } from "../../protocol/request.ts";
import { TubeRef, WatchList, WatchOrder } from "../state/watch-list.ts";
import type { HandedOver } from "../stream/transport.ts";

// A set of up to 64 shards, as bits.

export class ShardSet {
  empty = true;
  #low = 0;
  #high = 0;

  add(shard: number): void {
    if (shard < 32) this.#low |= 1 << shard;
    else this.#high |= 1 << (shard - 32);
    this.empty = false;
  }

  delete(shard: number): void {
    if (shard < 32) this.#low &= ~(1 << shard);
    else this.#high &= ~(1 << (shard - 32));
    this.empty = (this.#low | this.#high) === 0;
  }

  has(shard: number): boolean {
    return ((shard < 32 ? this.#low >>> shard : this.#high >>> (shard - 32)) & 1) === 1;
  }

  /** Returns the shards in the set, out of `shards` in total. */
  list(shards: number): number[] {
    const list: number[] = [];
    for (let shard = 0; shard < shards; shard++) if (this.has(shard)) list.push(shard);
    return list;
  }

  /** Returns whether the set contains no other shard. */
  within(shard: number): boolean {
    const low = shard < 32 ? 1 << shard : 0;
    const high = shard < 32 ? 0 : 1 << (shard - 32);
    return (this.#low & ~low) === 0 && (this.#high & ~high) === 0;
  }
}

// A connection on its way from one acceptor to another: its entire state, as one message.

/** How a connection picks its jobs: see acceptor/state/watch-list.ts. */
export interface MovedOrder {
  readonly order: ReserveOrder;
  readonly floor: number;
  /** The weight of each watched tube. */
  readonly weights: readonly number[];
}

/** The state of a connection that has nothing in flight, holds nothing and waits for nothing. */
export interface ConnectionState {
  readonly used: string;
  readonly watched: readonly string[];
  readonly order: MovedOrder | undefined;
  /** Shards that know it. */
  readonly touched: readonly number[];
  readonly isProducer: boolean;
  readonly isWorker: boolean;
  /** The number of the next abortable batch. The sessions remember earlier numbers. */
  readonly nextBatchNumber: number;
  /** In monotonic ms. */
  readonly openedAtMs: number;
  readonly peer: string | undefined;
  readonly name: string | undefined;
  readonly listener: number | undefined;
  readonly history: MigrationHistory;
}

/** The history that keeps a connection from moving too often. */
export interface MigrationHistory {
  readonly migrations: number;
  /** When it may move again, in monotonic ms. */
  readonly mayMigrateAtMs: number;
}

export interface MovedConnection extends HandedOver {
  /** The number under which the shards keep its sessions. */
  readonly number: number;
  readonly state: ConnectionState;
}

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
