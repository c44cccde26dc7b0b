// Given to a server with --import: its connections move as often as they can, where one moves after 64 commands and stays for seconds.

import { HostLoads } from "../../src/acceptor/host-loads.ts";
import { Moves } from "../../src/acceptor/moves.ts";
import { ShardHabit } from "../../src/acceptor/shard-habit.ts";

/** More than any commands that are asked for. */
const MANY = 1000;

HostLoads.prototype.mayTakeOne = () => true;

ShardHabit.prototype.note = function (shard: number): void {
  this.shard = shard;
  this.streak = MANY;
};

const { consider } = Moves.prototype;
Moves.prototype.consider = function (connection, shard): void {
  Object.assign(connection, { history: { moves: 0, mayMoveAtMs: 0 } });
  consider.call(this, connection, shard);
};
