// A connection on its way from one acceptor to another: its entire state, as one message.

import type { Departure, HandedOver } from "../replies/transport.ts";
import type { ShardSet } from "../state/shard-set.ts";

/** The state of a connection that has nothing in flight, holds nothing and waits for nothing. */
export interface ConnectionState {
  readonly used: string;
  readonly watched: readonly string[];
  /** Shards that know it. */
  readonly touched: readonly number[];
  readonly isProducer: boolean;
  readonly isWorker: boolean;
  /** The number of the next abortable batch. The sessions remember earlier numbers. */
  readonly nextBatchNumber: number;
  /** In monotonic ms. */
  readonly openedAtMs: number;
  readonly peer: string | undefined;
  readonly listener: number | undefined;
  readonly history: MoveHistory;
}

/** The history that keeps a connection from moving too often. */
export interface MoveHistory {
  readonly moves: number;
  /** When it may move again, in monotonic ms. */
  readonly mayMoveAtMs: number;
}

export interface MovedConnection extends HandedOver {
  /** The number under which the shards keep its sessions. */
  readonly number: number;
  readonly state: ConnectionState;
}

/** A connection, as a move sees it. */
export interface Movable {
  readonly slot: number;
  readonly touched: ShardSet;
  readonly departure: Departure | undefined;
  readonly history: MoveHistory;
  /** Stops taking input from the client and sending to it. */
  leave(): void;
  /** Whether the connection was told to end since it began to leave. It then ends where it was. */
  readonly isToEnd: boolean;
  /** Resumes the connection where it was. */
  stay(): void;
  state(history: MoveHistory): ConnectionState;
}

/** Decides which connections move. */
export interface MoveChooser {
  /** Commands to one shard after which a move is considered. */
  readonly commands: number;
  /** Considers moving a quiet connection whose recent commands nearly all went to `shard`. */
  consider(connection: Movable, shard: number): void;
}
