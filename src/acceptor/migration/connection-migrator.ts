// Migration of connections to their tubes: a connection whose commands nearly all go to a shard of
// another thread moves to that thread.
//
// A move takes two steps, and the client notices neither. When it begins, nothing is in flight or
// held, and the client has every reply.
//
// 1. The acceptor stops reading the socket. When the kernel has no operation on it, the acceptor
// tells each shard that knows the connection to keep its session under a number (Detach). The
// connection then goes to the other acceptor as one message.
// 2. The other acceptor assigns a slot, tells the shards which one (Adopt) before anything else,
// and resumes reading.
//
// No step waits for an answer: a shard that sees Adopt before Detach waits for the Detach
// (shard/sessions/shard-session.ts). The old slot is reused when all shards have released it
// (Detached). If the socket ends or fails, no descriptor is free or the server stops before the
// message is sent, the move ends where it began. No shard has heard of it by then.
//
// Only a connection that holds no job moves. So the holder of a job is always being read from, and
// a read barrier (shard/commands/read-barrier.ts) misses no disconnect. A worker is in this state
// after each delete. A connection with a filter or a limit does not move: only the acceptor that
// accepted it knows its permissions and its place in the counts.

import { assert } from "../../base/assert.ts";
import { MigrationView, RequestOp } from "../../message/request.ts";
import { type Topology, threadOfAcceptor, threadOfShard } from "../../message/topology.ts";
import type { ShardLinks } from "../state/shard-links.ts";
import type { Departure } from "../stream/transport.ts";
import type { ClientState, MigrationHistory } from "./client-state.ts";
import { type MigrationWay, STATE_BYTES_MAX } from "./migration-ring.ts";

/** Maximum number of moves of an acceptor in progress. */
const UNDER_WAY_MAX = 4;
/** Minimum stay after a move, in ms. It doubles with each move, up to the maximum. */
const STAY_MS_MIN = 2000;
const STAY_MS_MAX = 60_000;

/** A connection, as a move sees it. */
export interface Movable {
  readonly slot: number;
  readonly client: ClientState;
  readonly departure: Departure | undefined;
  /** Stops taking input from the client and sending to it. */
  leave(): void;
  /** Whether the connection was told to end since it began to leave. It then ends where it was. */
  readonly isToEnd: boolean;
  /** Resumes the connection where it was. */
  stay(): void;
}

/** The interface of a migration to its acceptor. */
interface MigrationHost {
  readonly links: ShardLinks;
  /** Notes that the connection leaves. */
  depart(slot: number): void;
  /** The slots of connections; one is freed when no shard knows its connection. */
  readonly slots: { vacate(slot: number): void };
}

interface MigratorOptions {
  readonly topology: Topology;
  readonly core: MigrationHost;
  readonly acceptor: number;
  readonly loads: Loads;
  readonly nowMs: () => number;
  /** Commands to one shard after which a connection may move. */
  readonly commands: number;
  /** The route to each other acceptor; undefined within a thread. */
  readonly ways: readonly (MigrationWay | undefined)[];
}

/** Tells whether an acceptor can take one more connection: see acceptor.ts. */
export interface Loads {
  mayTakeOne(acceptor: number, nowMs: number): boolean;
}

/** A move in progress. */
interface Move {
  readonly connection: Movable;
  readonly target: number;
  /** Once the connection has left: the number of shards that have not released its slot. */
  awaited: number;
}

export class ConnectionMigrator {
  /** Commands to one shard after which a move is considered. */
  readonly commands: number;
  readonly #options: MigratorOptions;
  /**
   * For each shard, the acceptor in the shard's thread; undefined if that is this thread or there
   * is none.
   */
  readonly #acceptorBeside: readonly (number | undefined)[];
  /** Moves in progress, by slot. */
  readonly #underWay = new Map<number, Move>();
  /** Whether a connection was sent that the other acceptor cannot see yet. */
  hasUnpublished = false;
  #lastNumber = 0;
  #stopping = false;

  constructor(options: MigratorOptions) {
    this.#options = options;
    this.commands = options.commands;
    const { topology, acceptor } = options;
    const own = threadOfAcceptor(topology, acceptor);
    this.#acceptorBeside = Array.from({ length: topology.shards }, (_, shard) => {
      const thread = threadOfShard(topology, shard);
      return thread === own ? undefined : topology.threads[thread]!.acceptors[0];
    });
  }

  /** Considers moving a quiet connection whose recent commands nearly all went to `shard`. */
  consider(connection: Movable, shard: number): void {
    const target = this.#acceptorBeside[shard];
    const { departure } = connection;
    if (target === undefined || departure === undefined || this.#stopping) return;
    const { loads, nowMs } = this.#options;
    const { history, watched } = connection.client;
    // An attempt lists all watched tubes: not for a list that is too long anyway.
    if (nowMs() < history.mayMigrateAtMs || watched.nameBytes + watched.size > STATE_BYTES_MAX) return;
    if (this.#underWay.size >= UNDER_WAY_MAX || !loads.mayTakeOne(target, nowMs())) return;
    this.#begin(connection, target, departure);
  }

  #begin(connection: Movable, target: number, departure: Departure): void {
    const move: Move = { connection, target, awaited: 0 };
    this.#underWay.set(connection.slot, move);
    connection.leave();
    departure.begin(() => this.#leave(move, departure));
  }

  /** Completes the departure once the kernel has no operation on the socket. */
  #leave(move: Move, departure: Departure): void {
    const { connection, target } = move;
    const { core, ways, topology, acceptor } = this.#options;
    const state = connection.client.message(this.#historyOf(connection.client.history));
    const way = ways[target]!;
    const stays = this.#stopping || connection.isToEnd || !way.hasRoom(state);
    const handedOver = stays ? undefined : departure.complete();
    if (handedOver === undefined) {
      this.#underWay.delete(connection.slot);
      connection.stay();
      departure.cancel();
      return;
    }
    const number = ++this.#lastNumber * topology.acceptors + acceptor;
    assert(state.touched.length > 0, "the shard of the tube default knows every connection");
    move.awaited = state.touched.length;
    for (const shard of state.touched) {
      const message = core.links.message(RequestOp.Detach);
      MigrationView.fill(message, connection.slot, number);
      core.links.post(shard, message);
    }
    core.depart(connection.slot);
    way.write(handedOver, number, state);
    this.hasUnpublished = true;
  }

  /** Notes that one more shard has released a connection's slot. */
  onDetached(slot: number): void {
    const move = this.#underWay.get(slot);
    assert(move !== undefined, "a shard detaches only a connection that has left");
    if (--move.awaited > 0) return;
    this.#underWay.delete(slot);
    this.#options.core.slots.vacate(slot);
  }

  #historyOf({ migrations }: MigrationHistory): MigrationHistory {
    const stayMs = Math.min(STAY_MS_MAX, STAY_MS_MIN * 2 ** migrations);
    return { migrations: migrations + 1, mayMigrateAtMs: this.#options.nowMs() + stayMs };
  }

  /** Makes sent connections visible to the other acceptors. */
  publish(): void {
    this.hasUnpublished = false;
    for (const way of this.#options.ways) way?.publish();
  }

  /** Stops migration: no further move begins, and those in progress end where they began. */
  stop(): void {
    this.#stopping = true;
  }
}
