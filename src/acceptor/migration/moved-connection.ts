// A connection on its way from one acceptor to another: all that it is, as one message.

import type { Departure, HandedOver } from "../replies/transport.ts";
import type { ShardSet } from "../state/shard-set.ts";

/** What an acceptor knows of a connection that has nothing under way, holds nothing and waits for nothing. */
export interface ConnectionState {
  readonly used: string;
  readonly watched: readonly string[];
  /** Shards that know it. */
  readonly touched: readonly number[];
  readonly isProducer: boolean;
  readonly isWorker: boolean;
  /** Of the next batch that it may abort: its sessions remember those before. */
  readonly nextBatchNumber: number;
  /** Monotonic ms. */
  readonly openedAtMs: number;
  readonly peer: string | undefined;
  readonly listener: number | undefined;
  readonly history: MoveHistory;
}

/** What keeps a connection from moving too often. */
export interface MoveHistory {
  readonly moves: number;
  /** When it may move again, monotonic ms. */
  readonly mayMoveAtMs: number;
}

export interface MovedConnection extends HandedOver {
  /** By which the shards keep its sessions. */
  readonly number: number;
  readonly state: ConnectionState;
}

/** A connection, as its move sees it. */
export interface Movable {
  readonly slot: number;
  readonly touched: ShardSet;
  readonly departure: Departure | undefined;
  readonly history: MoveHistory;
  /** Takes nothing from its client and sends nothing from now on. */
  leave(): void;
  /** It has been told to end since it began to leave, and does where it was. */
  readonly isToEnd: boolean;
  /** Goes on where it was. */
  stay(): void;
  state(history: MoveHistory): ConnectionState;
}

/** Decides about connections that would be better off elsewhere. */
export interface MoveChooser {
  /** So many commands to one shard make it worth a thought. */
  readonly commands: number;
  /** Nearly all of its last commands went to this shard, and nothing of it is under way. */
  consider(connection: Movable, shard: number): void;
}
