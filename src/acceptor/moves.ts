// Connections follow their tubes: one whose commands nearly all go to a shard of another thread moves to that thread.
//
// A move is made of three steps, and the client notices none of them. Everything is still when it begins: nothing is
// under way, nothing held, every reply with the client. (1) The acceptor stops reading the socket and tells each
// shard that knows the connection to keep its session by a number (Detach). (2) When the kernel has nothing of the socket
// under way and all shards have answered, nobody else knows the slot, so it is free at once; the connection goes to the
// other acceptor as one message. (3) That one gives it a slot, tells the shards which (Adopt) before anything else, and reads
// on. Since the Detached of all shards come before the message and Adopt after it, no shard meets them in another order.
// What goes wrong before the message is sent (the socket ends or fails, no descriptor is left, the server stops) ends
// the move where it began: the acceptor adopts the sessions itself, and what has happened takes its way.
//
// Only a connection that holds no job moves: so a job is never held by somebody whom nobody reads, and a look for the
// ends of holders (shard/looks.ts) misses nobody. A worker is in this state after each delete. And only one that came in without a
// gate or a limit: what it may do, and that it is counted, is known where it came in.

import { assert } from "../base/assert.ts";
import { RequestOp } from "../message/request.ts";
import { hostOfAcceptor, hostOfShard, type Topology } from "../message/topology.ts";
import type { Request } from "../protocol/request.ts";
import type { MoveChooser } from "./connection-host.ts";
import type { Movable, MovedConnection, MoveHistory } from "./moved-connection.ts";

/** Moves that an acceptor has under way at once. */
const UNDER_WAY_MAX = 4;
/** A connection stays this long after its first move, then twice as long each time, up to the most, ms. */
const STAY_MS_MIN = 2000;
const STAY_MS_MAX = 60_000;

/** What a move needs of its acceptor. */
export interface MoveHost {
  message(op: number): Request;
  post(shard: number, message: Request): void;
  /** The connection has left; its slot is free. */
  depart(slot: number): void;
}

export interface MovesOptions {
  readonly topology: Topology;
  readonly core: MoveHost;
  readonly acceptor: number;
  readonly loads: Loads;
  readonly nowMs: () => number;
  /** So many commands to one shard make a connection move. */
  readonly commands: number;
  /** Sends a connection to another acceptor. */
  readonly send: (acceptor: number, connection: MovedConnection) => void;
}

/** Tells whether an acceptor can take one more connection: see host-loads.ts. */
export interface Loads {
  mayTakeOne(acceptor: number, nowMs: number): boolean;
}

/** A move under way. */
interface Move {
  readonly connection: Movable;
  readonly target: number;
  readonly number: number;
  /** Shards that have not answered, and one for the transport. */
  awaited: number;
}

export class Moves implements MoveChooser {
  readonly commands: number;
  readonly #options: MovesOptions;
  /** For each shard the acceptor beside it; undefined if that is this one's own thread, or there is none. */
  readonly #acceptorBeside: readonly (number | undefined)[];
  /** By slot. */
  readonly #underWay = new Map<number, Move>();
  #lastNumber = 0;
  #stopping = false;

  constructor(options: MovesOptions) {
    this.#options = options;
    this.commands = options.commands;
    const { topology, acceptor } = options;
    const own = hostOfAcceptor(topology, acceptor);
    this.#acceptorBeside = Array.from({ length: topology.shards }, (_, shard) => {
      const host = hostOfShard(topology, shard);
      return host === own ? undefined : topology.hosts[host]!.acceptors[0];
    });
  }

  /** Whether a connection of this acceptor can be better off elsewhere at all. */
  static isOfUse({ hosts }: Topology): boolean {
    return hosts.filter(({ acceptors }) => acceptors.length > 0).length > 1 && hosts.some(hasBoth);
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
    const { topology, acceptor } = this.#options;
    const shards = connection.touched.list(topology.shards);
    const number = ++this.#lastNumber * topology.acceptors + acceptor;
    const move: Move = { connection, target, number, awaited: shards.length + 1 };
    this.#underWay.set(connection.slot, move);
    connection.leave();
    for (const shard of shards) this.#tell(RequestOp.Detach, shard, move);
    departure.begin(() => this.#goOn(move));
  }

  #tell(op: number, shard: number, { connection, number }: Move): void {
    const { core } = this.#options;
    const message = core.message(op);
    message.slot = connection.slot;
    message.id = number;
    core.post(shard, message);
  }

  /** One more shard keeps the session of a slot by its number. */
  onDetached(slot: number): void {
    const move = this.#underWay.get(slot);
    assert(move !== undefined, "a shard detaches what it was told to");
    this.#goOn(move);
  }

  #goOn(move: Move): void {
    if (--move.awaited > 0) return;
    const { connection, number, target } = move;
    const { core, send } = this.#options;
    this.#underWay.delete(connection.slot);
    const stays = this.#stopping || connection.isToEnd;
    const handedOver = stays ? undefined : connection.departure!.complete();
    if (handedOver === undefined) {
      this.#cancel(move);
      return;
    }
    const state = connection.state(this.#historyOf(connection.history));
    core.depart(connection.slot);
    send(target, { ...handedOver, number, state });
  }

  #cancel(move: Move): void {
    const { connection } = move;
    const { topology } = this.#options;
    for (const shard of connection.touched.list(topology.shards)) this.#tell(RequestOp.Adopt, shard, move);
    connection.stay();
    connection.departure!.cancel();
  }

  #historyOf({ moves }: MoveHistory): MoveHistory {
    const stayMs = Math.min(STAY_MS_MAX, STAY_MS_MIN * 2 ** moves);
    return { moves: moves + 1, mayMoveAtMs: this.#options.nowMs() + stayMs };
  }

  /** The server stops: no move begins any more, and those under way end where they began. */
  stop(): void {
    this.#stopping = true;
  }
}

const hasBoth = ({ acceptors, shards }: Topology["hosts"][number]): boolean =>
  acceptors.length > 0 && shards.length > 0;
