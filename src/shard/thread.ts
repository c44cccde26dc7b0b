// The worker thread around one shard: loads what the log knows of it, then runs its loop and sleeps where
// that does.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { BlockingLoop } from "../loop/blocking-loop.ts";
import { Point, REAL_THREAD } from "../loop/point.ts";
import { IdleSpin, ROOM_SLEEP_MS, SLEEP_MS_MAX, type Waiting } from "../loop/waiting-policy.ts";
import {
  acceptorThread,
  binlogThread,
  ControlWord,
  Counter,
  countersOf,
  shardThread,
  type Topology,
} from "../message/topology.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { ControlWords } from "../ring/control-words.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { FileTable } from "../ring/file-table.ts";
import { JobDirectory } from "../ring/job-directory.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { type RecordRoomOptions, waitForRecordRoom } from "./record-room.ts";
import { Restore } from "./restore.ts";
import { ShardCore } from "./shard-core.ts";
import { ShardLoop } from "./shard-loop.ts";
import { RecordLog } from "./work/record-log.ts";

export interface ShardThreadData {
  topology: Topology;
  shard: number;
  quoteNames: boolean;
  waiting: Waiting;
  /** The binlog sends its jobs here before the shard starts; undefined without a log. */
  recovery: MessagePort | undefined;
}

/** What the binlog says to a shard at the start. */
export type RecoveryMessage = { bytes: Uint8Array; offsets: Uint32Array } | "end";

const wallOffsetMs = (): number => Date.now() - monotonicMs();

class ShardThread {
  readonly #core: ShardCore;
  readonly #doorbell: DoorbellOwner;
  readonly #records: RecordLog | undefined;
  readonly #room: RecordRoomOptions;
  readonly #loop: BlockingLoop;
  readonly #control: ControlWords;
  readonly #data: ShardThreadData;

  constructor(data: ShardThreadData) {
    this.#data = data;
    const { topology, shard, waiting } = data;
    this.#control = new ControlWords(topology.control);
    const words = new Int32Array(topology.doorbells);
    const doorbell = new DoorbellOwner(words, shardThread(shard));
    const binlog = new Doorbell(words, binlogThread(topology));
    this.#doorbell = doorbell;
    this.#room = { doorbell, binlog, sleep: () => doorbell.sleep(ROOM_SLEEP_MS) };
    const records = this.#createRecords();
    this.#records = records;
    const core = new ShardCore({
      topology,
      shard,
      quoteNames: data.quoteNames,
      ...(records === undefined ? {} : { records }),
    });
    this.#core = core;
    const counters = new TurnCounters(core.counters, core.requests);
    const role = new ShardLoop({
      core,
      records,
      control: this.#control,
      acceptors: core.ports.map((_, acceptor) => new Doorbell(words, acceptorThread(topology, acceptor))),
      binlog,
      counters,
      surroundings: REAL_THREAD,
    });
    const spin = new IdleSpin(waiting.spinMs, monotonicMs);
    this.#loop = new BlockingLoop({ role, doorbell, counters, spin, surroundings: REAL_THREAD });
  }

  #createRecords(): RecordLog | undefined {
    const { topology, shard } = this.#data;
    if (topology.binlog === undefined) return undefined;
    const control = this.#control;
    const counters = countersOf(topology, binlogThread(topology));
    return new RecordLog({
      binlog: topology.binlog,
      shard,
      isFull: () => control.isSet(ControlWord.BinlogFull),
      isWaiting: () => control.isSet(ControlWord.BinlogWaits),
      wallOffsetMs,
      waitForRoom: (records) => waitForRecordRoom(records, this.#room),
      currentFile: () => counters[Counter.BinlogCurrent]!,
    });
  }

  /** Loads what the log knew, if there is one, then serves for ever. */
  start(): void {
    const { recovery } = this.#data;
    parentPort!.postMessage("ready");
    if (recovery === undefined || this.#records === undefined) this.#run();
    const restore = this.#createRestore();
    recovery.on("message", (message: RecoveryMessage) => {
      if (message !== "end") {
        restore.load(message.bytes, message.offsets);
        recovery.postMessage("loaded");
        return;
      }
      restore.finish();
      this.#records!.attach(this.#core.engine, restore.burySequence);
      recovery.postMessage("loaded");
      recovery.close();
      // The port closes after this turn of the event loop; from then on the thread has no event loop any
      // more.
      setImmediate(() => this.#run());
    });
  }

  #createRestore(): Restore {
    const { topology, shard } = this.#data;
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const files = new FileTable(topology.binlog!.files);
    return new Restore(this.#core.engine, wallOffsetMs(), monotonicMs(), (id) => {
      directory?.set(id, shard);
      return files.find(id);
    });
  }

  #run(): never {
    const { points } = this.#loop;
    for (;;) {
      const point = points.next().value;
      if (point === Point.Asleep) this.#doorbell.sleep(this.#loop.sleepMs);
      else if (point === Point.Ended) this.#doorbell.rest(SLEEP_MS_MAX);
    }
  }
}

new ShardThread(workerData as ShardThreadData).start();
