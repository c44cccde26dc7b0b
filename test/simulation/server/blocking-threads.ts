// Threads of shards and of the log, which sleep on their doorbells.

import { BinlogLoop } from "../../../src/binlog/binlog-loop.ts";
import type { Storage } from "../../../src/binlog/live/storage.ts";
import { BlockingLoop } from "../../../src/loop/blocking-loop.ts";
import { Point } from "../../../src/loop/role.ts";
import { binlogBell, portBell, threadOfShard } from "../../../src/message/topology.ts";
import type { DoorbellOwner } from "../../../src/ring/doorbell.ts";
import type { ShardCore } from "../../../src/shard/shard-core.ts";
import { DrawnSpin } from "./drawn-waiting.ts";
import type { Thread, ThreadSteps } from "./in-process-options.ts";
import type { ServerParts } from "./server-parts.ts";

export class BlockingThreads {
  readonly #server: ServerParts;

  constructor(server: ServerParts) {
    this.#server = server;
  }

  /** As src/threads/thread.ts does. */
  addResidentLog(log: BinlogLoop): void {
    this.#server.loops[this.#server.topology.binlog!.thread!]!.log = log;
    this.#server.ownLog.log = log;
  }

  shardRole(shard: number): ShardCore {
    const { topology } = this.#server;
    const thread = threadOfShard(topology, shard);
    const core = this.#server.shards[shard]!;
    core.runIn({
      acceptors: this.#server.createBells(thread, topology.ports, (port) => portBell(topology, port)),
      binlog: this.#server.createBell(thread, binlogBell(topology)),
      surroundings: this.#server.surroundings,
    });
    return core;
  }

  shardThread(shard: number, thread: number): Thread {
    const doorbell = this.#server.createOwner(this.#server.words, thread);
    const surroundings = this.#server.surroundings;
    const role = this.shardRole(shard);
    const { turnCounters: counters } = role;
    const loop = new BlockingLoop({ role, doorbell, counters, spin: this.#createSpin(), surroundings });
    const steps = this.#blockingSteps(loop, doorbell, thread, () => {});
    return { name: `shard ${shard}`, steps, ready: undefined };
  }

  binlogThread(role: BinlogLoop): Thread {
    const thread = binlogBell(this.#server.topology);
    const doorbell = this.#server.createOwner(this.#server.words, thread);
    const surroundings = this.#server.surroundings;
    const loop = new BlockingLoop({
      ...{ role, doorbell, surroundings },
      counters: role.turns,
      spin: this.#createSpin(),
    });
    const steps = this.#blockingSteps(loop, doorbell, thread, () => {});
    return { name: "binlog", steps, ready: undefined };
  }

  binlogRole(storage: Storage): BinlogLoop {
    const { topology } = this.#server;
    const thread = binlogBell(topology);
    const role: BinlogLoop = new BinlogLoop({
      topology,
      storage,
      shards: this.#server.createBells(thread, topology.shards, (shard) => threadOfShard(topology, shard)),
      acceptors: this.#server.createBells(thread, topology.ports, (port) => portBell(topology, port)),
      clock: this.#server.logClock,
      givesWay: topology.binlog!.thread !== undefined,
      onEnded: () => {
        this.#server.logEnd = role.close() === undefined ? "closed" : "failed";
      },
      surroundings: this.#server.surroundings,
    });
    return role;
  }

  #createSpin(): DrawnSpin {
    return new DrawnSpin(this.#server.random, this.#server.pollChance);
  }

  /**
   * Does what src/shard/shard-runtime.ts and src/binlog/thread.ts do at the points of their loop.
   */
  *#blockingSteps(loop: BlockingLoop, owner: DoorbellOwner, thread: number, onEnd: () => void): ThreadSteps {
    for (;;) {
      const point = loop.next();
      if (point === Point.Asleep) {
        this.#server.fallAsleep(owner);
        yield () => this.#server.isRung(thread) || this.#server.nowMs >= loop.wakeAtMs;
        owner.cancel();
      } else if (point === Point.Ended) {
        onEnd();
        for (;;) yield () => false;
      } else yield undefined;
    }
  }
}
