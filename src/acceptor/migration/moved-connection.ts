// A connection on its way from one acceptor to another: its entire state, as one message.

import type { ReserveOrder } from "../../protocol/reserve-order.ts";
import type { HandedOver } from "../replies/transport.ts";

/** How a connection picks its jobs: see acceptor/state/watch-order.ts. */
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
