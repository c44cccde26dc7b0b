// One shard with everything that its thread needs: engine, part of the log, loop. The thread is its
// own or an acceptor's.

import { randomInt } from "node:crypto";
import { assert } from "../base/assert.ts";
import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { REAL_THREAD } from "../loop/point.ts";
import { ROOM_SLEEP_MS } from "../loop/waiting-policy.ts";
import type { LoggedBatch } from "../message/flow-record.ts";
import {
  binlogBell,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  portBell,
  type Topology,
  threadOfShard,
} from "../message/topology.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { ControlWords } from "../ring/control-words.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { FileTable } from "../ring/file-table.ts";
import { JobDirectory } from "../ring/job-directory.ts";
import { JobIds } from "../ring/job-ids.ts";
import { Lease } from "../ring/lease-word.ts";
import { LentIds } from "../ring/lent-ids.ts";
import { monotonicMs, wallOffsetMs } from "../ring/monotonic-clock.ts";
import {
  type OwnLog,
  type RecordRoomOptions,
  turnLog,
  waitForLend,
  waitForRecordRoom,
} from "./record-room.ts";
import { RecordLog } from "./records/record-log.ts";
import { Restore } from "./restore.ts";
import { zoneWarnings } from "./schedules/zone-warnings.ts";
import { ShardCore } from "./shard-core.ts";
import { ShardLoop } from "./shard-loop.ts";

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

export class ShardRuntime {
  readonly role: ShardLoop;
  readonly counters: TurnCounters;
  readonly #core: ShardCore;
  readonly #records: RecordLog | undefined;
  readonly #options: ShardRuntimeOptions;

  /** `ownLog` is set if the log runs in the same thread. */
  constructor(options: ShardRuntimeOptions, ownLog?: OwnLog) {
    this.#options = options;
    const { topology, shard } = options;
    const control = new ControlWords(topology.control);
    const words = new Int32Array(topology.doorbells);
    const doorbell = new DoorbellOwner(words, threadOfShard(topology, shard));
    const binlog = new Doorbell(words, binlogBell(topology));
    const sleep = (): void => {
      if (ownLog === undefined) doorbell.sleep(ROOM_SLEEP_MS);
      else turnLog(ownLog, doorbell, monotonicMs());
      core.readClock();
    };
    const records = createRecords(options, control, { doorbell, binlog, sleep });
    this.#records = records;
    const core = new ShardCore({
      topology,
      shard,
      quoteNames: options.quoteNames,
      clock: monotonicMs,
      wallOffsetMs,
      keySeed: [randomInt(2 ** 32), randomInt(2 ** 32)],
      ...(records === undefined ? {} : { records }),
    });
    this.#core = core;
    this.counters = new TurnCounters(core.counters, core.requests);
    this.role = new ShardLoop({
      core,
      records,
      control,
      acceptors: core.ports.map((_, port) => new Doorbell(words, portBell(topology, port))),
      binlog,
      counters: this.counters,
      surroundings: REAL_THREAD,
      lease:
        topology.binlog?.group === undefined
          ? undefined
          : new Lease(control.words, ControlWord.ServeUntil, ControlWord.ServeUntilWall),
    });
  }

  get shard(): number {
    return this.#options.shard;
  }

  get arena(): BodyArena {
    return this.#core.engine.bodies;
  }

  /**
   * Loads the shard's part of the log, if there is one, then calls `onReady`: from the event loop
   * or, without a log, at once.
   */
  load(onReady: () => void): void {
    const { recovery } = this.#options;
    const records = this.#records;
    if (recovery === undefined || records === undefined) {
      this.#core.tubeSetter.restore(this.#options.tubes, monotonicMs());
      onReady();
      return;
    }
    let clockOffsetMs = Number.NaN;
    let restore: Restore | undefined;
    recovery.on("message", (message) => {
      if (message !== "end" && "settings" in message) {
        ({ clockOffsetMs } = message);
        restore = this.#createRestore(clockOffsetMs);
        this.#core.tubeSetter.restore([...message.settings, ...this.#options.tubes], monotonicMs());
        this.#core.homes.restore(message.batches, clockOffsetMs, monotonicMs());
        return;
      }
      assert(restore !== undefined, "the log's clock comes before its jobs");
      if (message !== "end") {
        restore.load(message.bytes, message.offsets);
        recovery.postMessage("loaded");
        return;
      }
      restore.finish();
      this.#core.memory.settle();
      records.attach(this.#core.engine, restore.burySequence, clockOffsetMs);
      recovery.postMessage({ warnings: zoneWarnings(this.#core.engine.schedules.table) });
      recovery.close();
      onReady();
    });
  }

  #createRestore(clockOffsetMs: number): Restore {
    const { topology, shard } = this.#options;
    assert(topology.binlog !== undefined, "only a server with a log restores jobs");
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const files = new FileTable(topology.binlog.files);
    return new Restore(this.#core.engine, clockOffsetMs, monotonicMs(), (id) => {
      directory?.set(id, shard);
      return files.find(id);
    });
  }
}

function createRecords(
  { topology, shard }: ShardRuntimeOptions,
  control: ControlWords,
  room: RecordRoomOptions,
): RecordLog | undefined {
  if (topology.binlog === undefined) return undefined;
  const counters = countersOf(topology, binlogRole(topology));
  const lent = new LentIds(control.words, ControlWord.IdsLent);
  const ids = new JobIds(control.words, ControlWord.JobIds);
  return new RecordLog({
    binlog: topology.binlog,
    shard,
    isFull: () => control.isSet(ControlWord.BinlogFull) || control.isSet(ControlWord.SharedLogFull),
    isWaiting: () => control.isSet(ControlWord.BinlogWaits),
    waitForRoom: (records) => waitForRecordRoom(records, room),
    lent,
    takeId: () => ids.take(),
    waitForLend: (records, id) => waitForLend(records, room, lent, id),
    currentFile: () => counters[Counter.BinlogCurrent]!,
  });
}
