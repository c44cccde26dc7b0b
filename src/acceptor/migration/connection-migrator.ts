// Connections follow their tubes: one whose commands nearly all go to a shard of another thread moves to that thread.
//
// A move is made of two steps, and the client notices neither. Everything is still when it begins: nothing is
// under way, nothing held, every reply with the client. (1) The acceptor stops reading the socket. When the kernel has nothing
// of it under way, it tells each shard that knows the connection to keep its session by a number (Detach), and the connection goes
// to the other acceptor as one message. (2) That one gives it a slot, tells the shards which (Adopt) before anything else, and reads
// on. Nobody waits for an answer in between: a shard that meets Adopt before Detach waits for that (shard/sessions/adoptions.ts). The old
// slot is used again when all shards have let it go (Detached). What goes wrong before the message is sent (the socket ends or
// fails, no descriptor is left, the server stops) ends the move where it began, and no shard has heard of it.
//
// Only a connection that holds no job moves: so a job is never held by somebody whom nobody reads, and a look for the
// ends of holders (shard/read-barrier.ts) misses nobody. A worker is in this state after each delete. And only one that came in without a
// gate or a limit: what it may do, and that it is counted, is known where it came in.

import { assert } from "../../base/assert.ts";
import { RequestOp } from "../../message/request.ts";
import { hostOfAcceptor, hostOfShard, type Topology } from "../../message/topology.ts";
import type { Request } from "../../protocol/request.ts";
import type { MoveWay } from "./move-writer.ts";
import type { Movable, MoveChooser, MoveHistory } from "./moved-connection.ts";

/** Moves that an acceptor has under way at once. */
const UNDER_WAY_MAX = 4;
/** A connection stays this long after its first move, then twice as long each time, up to the most, ms. */
const STAY_MS_MIN = 2000;
const STAY_MS_MAX = 60_000;

/** What a move needs of its acceptor. */
export interface MoveHost {
  message(op: number): Request;
  post(shard: number, message: Request): void;
  /** The connection leaves. */
  depart(slot: number): void;
  /** Its slot is free. */
  vacate(slot: number): void;
}

export interface MigratorOptions {
  readonly topology: Topology;
  readonly core: MoveHost;
  readonly acceptor: number;
  readonly loads: Loads;
  readonly nowMs: () => number;
  /** So many commands to one shard make a connection move. */
  readonly commands: number;
  /** The way to each other acceptor; none within a thread. */
  readonly ways: readonly (MoveWay | undefined)[];
}

/** Tells whether an acceptor can take one more connection: see host-loads.ts. */
export interface Loads {
  mayTakeOne(acceptor: number, nowMs: number): boolean;
}

/** A move under way. */
interface Move {
  readonly connection: Movable;
  readonly target: number;
  /** Shards that have not let its slot go, once it has left. */
  awaited: number;
}

export class ConnectionMigrator implements MoveChooser {
  readonly commands: number;
  readonly #options: MigratorOptions;
  /** For each shard the acceptor beside it; undefined if that is this one's own thread, or there is none. */
  readonly #acceptorBeside: readonly (number | undefined)[];
  /** By slot. */
  readonly #underWay = new Map<number, Move>();
  /** Whether a connection has been sent that the other acceptor can't see. */
  hasUnpublished = false;
  #lastNumber = 0;
  #stopping = false;

  constructor(options: MigratorOptions) {
    this.#options = options;
    this.commands = options.commands;
    const { topology, acceptor } = options;
    const own = hostOfAcceptor(topology, acceptor);
    this.#acceptorBeside = Array.from({ length: topology.shards }, (_, shard) => {
      const host = hostOfShard(topology, shard);
      return host === own ? undefined : topology.hosts[host]!.acceptors[0];
    });
  }

  /** Nearly all of its last commands went to this shard, and nothing of it is under way. */
  consider(connection: Movable, shard: number): void {
    const target = this.#acceptorBeside[shard];
    const { departure } = connection;
    if (target === undefined || departure === undefined || this.#stopping) return;
    const { loads, nowMs } = this.#options;
    const isEarly = nowMs() < connection.history.mayMoveAtMs;
    if (isEarly || this.#underWay.size >= UNDER_WAY_MAX || !loads.mayTakeOne(target, nowMs())) return;
    this.#begin(connection, target, departure);
  }

  #begin(connection: Movable, target: number, departure: NonNullable<Movable["departure"]>): void {
    const move: Move = { connection, target, awaited: 0 };
    this.#underWay.set(connection.slot, move);
    connection.leave();
    departure.begin(() => this.#leave(move, departure));
  }

  /** The kernel has nothing of the socket under way. */
  #leave(move: Move, departure: NonNullable<Movable["departure"]>): void {
    const { connection, target } = move;
    const { core, ways, topology, acceptor } = this.#options;
    const state = connection.state(this.#historyOf(connection.history));
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
      const message = core.message(RequestOp.Detach);
      message.slot = connection.slot;
      message.id = number;
      core.post(shard, message);
    }
    core.depart(connection.slot);
    way.write(handedOver, number, state);
    this.hasUnpublished = true;
  }

  /** One more shard has let the slot of a connection go. */
  onDetached(slot: number): void {
    const move = this.#underWay.get(slot);
    assert(move !== undefined, "a shard detaches what it was told to");
    if (--move.awaited > 0) return;
    this.#underWay.delete(slot);
    this.#options.core.vacate(slot);
  }

  #historyOf({ moves }: MoveHistory): MoveHistory {
    const stayMs = Math.min(STAY_MS_MAX, STAY_MS_MIN * 2 ** moves);
    return { moves: moves + 1, mayMoveAtMs: this.#options.nowMs() + stayMs };
  }

  /** Lets the other acceptors see who comes. */
  publish(): void {
    this.hasUnpublished = false;
    for (const way of this.#options.ways) way?.publish();
  }

  /** The server stops: no move begins any more, and those under way end where they began. */
  stop(): void {
    this.#stopping = true;
  }
}
