// A shard with its part of the log, in a thread of its own or in an acceptor's.

import { assert } from "../base/assert.ts";
import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { BlockingLoop } from "../loop/blocking-loop.ts";
import { Point, REAL_THREAD } from "../loop/role.ts";
import { IdleSpin, ROOM_SLEEP_MS, SLEEP_MS_MAX, type WaitSettings } from "../loop/waiting-policy.ts";
import type { LoggedBatch } from "../message/flow-record.ts";
import { binlogBell, ControlWord, portBell, type Topology, threadOfShard } from "../message/topology.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { Lease, monotonicMs, wallOffsetMs } from "../ring/monotonic-clock.ts";
import { FileTable, JobDirectory } from "../ring/shared-words.ts";
import { type OwnLog, RecordLog, turnLog } from "./records/record-log.ts";
import { Restore } from "./records/restore.ts";
import { zoneWarnings } from "./schedules/cron-times.ts";
import { ShardCore } from "./shard-core.ts";

export interface ShardRuntimeOptions {
  topology: Topology;
  shard: number;
  quoteNames: boolean;
  /**
   * The binlog sends the shard's jobs through this port before the shard starts; undefined without
   * a log.
   */
  recovery: RecoveryPort | undefined;
  /** The settings of `--tubes`. They take precedence over those in the log. */
  tubes: readonly (readonly [pattern: string, text: string])[];
}

/** A message from the binlog to a shard at startup. */
type RecoveryMessage =
  | {
      settings: readonly (readonly [pattern: string, text: string])[];
      batches: readonly LoggedBatch[];
      /** The log's clock minus the monotonic clock, ms. */
      clockOffsetMs: number;
    }
  | { bytes: Uint8Array; offsets: Uint32Array }
  | "end";

/**
 * The answer to each message with jobs, and to the end, possibly with warnings for the operator.
 */
type LoadedMessage = "loaded" | { readonly warnings: readonly string[] };

/** The shard's port to the binlog. */
interface RecoveryPort {
  on(event: "message", listener: (message: RecoveryMessage) => void): unknown;
  postMessage(message: LoadedMessage): void;
  close(): void;
}

/** Not of node:crypto, for the simulator imports this file in a browser, too. */
const randomWord = (): number => crypto.getRandomValues(new Uint32Array(1))[0]!;

export class ShardRuntime {
  readonly role: ShardCore;
  readonly #records: RecordLog | undefined;
  readonly #options: ShardRuntimeOptions;

  /** `ownLog` is set if the log runs in the same thread. */
  constructor(options: ShardRuntimeOptions, ownLog?: OwnLog) {
    this.#options = options;
    const { topology, shard } = options;
    const words = new Int32Array(topology.doorbells);
    const doorbell = new DoorbellOwner(words, threadOfShard(topology, shard));
    const binlog = new Doorbell(words, binlogBell(topology));
    const sleep = (): void => {
      if (ownLog === undefined) doorbell.sleep(ROOM_SLEEP_MS);
      else turnLog(ownLog, doorbell, monotonicMs());
      core.readClock();
    };
    const records =
      topology.binlog === undefined ? undefined : new RecordLog(topology, shard, { doorbell, binlog, sleep });
    this.#records = records;
    const core = new ShardCore({
      topology,
      shard,
      quoteNames: options.quoteNames,
      clock: monotonicMs,
      wallOffsetMs,
      keySeed: [randomWord(), randomWord()],
      ...(records === undefined ? {} : { records }),
    });
    this.role = core;
    core.runIn({
      acceptors: core.ports.map((_, port) => new Doorbell(words, portBell(topology, port))),
      binlog,
      surroundings: REAL_THREAD,
      lease:
        topology.binlog?.group === undefined
          ? undefined
          : new Lease(core.controlWords.words, ControlWord.ServeUntil, ControlWord.ServeUntilWall),
    });
  }

  get shard(): number {
    return this.#options.shard;
  }

  get arena(): BodyArena {
    return this.role.engine.bodies;
  }

  /**
   * Loads the shard's part of the log, if there is one, then calls `onReady`: from the event loop
   * or, without a log, at once.
   */
  load(onReady: () => void): void {
    const { recovery } = this.#options;
    const records = this.#records;
    if (recovery === undefined || records === undefined) {
      this.role.tubeSetter.restore(this.#options.tubes, monotonicMs());
      onReady();
      return;
    }
    let clockOffsetMs = Number.NaN;
    let restore: Restore | undefined;
    recovery.on("message", (message) => {
      if (message !== "end" && "settings" in message) {
        ({ clockOffsetMs } = message);
        restore = this.#createRestore(clockOffsetMs);
        this.role.tubeSetter.restore([...message.settings, ...this.#options.tubes], monotonicMs());
        this.role.homes.restore(message.batches, clockOffsetMs, monotonicMs());
        return;
      }
      assert(restore !== undefined, "the log's clock comes before its jobs");
      if (message !== "end") {
        restore.load(message.bytes, message.offsets);
        recovery.postMessage("loaded");
        return;
      }
      restore.finish();
      this.role.memory.settle();
      records.attach(this.role.engine, restore.burySequence, clockOffsetMs);
      recovery.postMessage({ warnings: zoneWarnings(this.role.engine.schedules.table) });
      recovery.close();
      onReady();
    });
  }

  #createRestore(clockOffsetMs: number): Restore {
    const { topology, shard } = this.#options;
    assert(topology.binlog !== undefined, "only a server with a log restores jobs");
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const files = new FileTable(topology.binlog.files);
    return new Restore(this.role.engine, clockOffsetMs, monotonicMs(), (id) => {
      directory?.set(id, shard);
      return files.find(id);
    });
  }
}

// A shard with its own thread: loads its part of the log, then runs its loop and sleeps when the
// loop does.

/**
 * Loads the shard's jobs, then serves for ever. From then on the thread's event loop does not run.
 */
export function runShard(options: ShardRuntimeOptions, waiting: WaitSettings): void {
  const { topology, shard } = options;
  const doorbell = new DoorbellOwner(new Int32Array(topology.doorbells), threadOfShard(topology, shard));
  const runtime = new ShardRuntime(options);
  const { role } = runtime;
  const spin = new IdleSpin(waiting.spinMs, monotonicMs);
  const { turnCounters: counters } = role;
  const loop = new BlockingLoop({ role, doorbell, counters, spin, surroundings: REAL_THREAD });
  // The port to the log closes after this turn of the event loop.
  runtime.load(() => setImmediate(() => run(loop, doorbell)));
}

function run(loop: BlockingLoop, doorbell: DoorbellOwner): never {
  for (;;) {
    const point = loop.next();
    if (point === Point.Asleep) doorbell.sleep(loop.sleepMs);
    else if (point === Point.Ended) doorbell.rest(SLEEP_MS_MAX);
  }
}
