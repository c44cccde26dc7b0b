// Preloaded into a server with --import: the log's thread loses its core between telling one shard
// and the next that it has all its jobs.

import { setTimeout as lost } from "node:timers/promises";
import { ShardFeed } from "../../../src/binlog/binlog-runtime.ts";

const LOST_MS = 100;

const { end } = ShardFeed.prototype;
let before = Promise.resolve();

ShardFeed.prototype.end = function (this: ShardFeed): Promise<void> {
  before = before.then(() => end.call(this)).then(() => lost(LOST_MS));
  return before;
};
