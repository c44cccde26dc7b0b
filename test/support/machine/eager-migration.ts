// Preloaded into a server with --import: its connections move at every opportunity, instead of
// after 64 commands and at most every few seconds.

import { ThreadLoads } from "../../../src/acceptor/acceptor.ts";
import { ShardAffinity } from "../../../src/acceptor/connection/replies.ts";
import { ConnectionMigrator } from "../../../src/acceptor/migration/connection-migrator.ts";

/** More than any commands that are asked for. */
const MANY = 1000;

ThreadLoads.prototype.mayTakeOne = () => true;

ShardAffinity.prototype.note = function (shard: number): void {
  this.shard = shard;
  this.streak = MANY;
};

const { consider } = ConnectionMigrator.prototype;
ConnectionMigrator.prototype.consider = function (connection, shard): void {
  connection.client.history = { migrations: 0, mayMigrateAtMs: 0 };
  consider.call(this, connection, shard);
};
