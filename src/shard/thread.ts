// The worker thread around one shard: takes turns while there is work, sleeps when there is none.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
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
import { IdleSpin } from "./idle-spin.ts";
import { RecordLog } from "./record-log.ts";
import { Restore } from "./restore.ts";
import { ShardCore } from "./shard-core.ts";

export interface ShardThreadData {
  topology: Topology;
  shard: number;
  quoteNames: boolean;
  /** Longest spin for the next message before the thread sleeps, ms. */
  spinMs: number;
  /** The binlog sends its jobs here before the shard starts; undefined without a log. */
  recovery: MessagePort | undefined;
}

/** What the binlog says to a shard at the start. */
export type RecoveryMessage = { bytes: Uint8Array; offsets: Uint32Array } | "end";

/** Longest sleep, so that a timer far away needs no exact arithmetic. */
const SLEEP_MS_MAX = 3_600_000;
/** How long a shard sleeps for room in the ring to the binlog before it looks again. */
const ROOM_SLEEP_MS = 100;

const wallOffsetMs = (): number => Date.now() - monotonicMs();

class ShardThread {
  readonly #core: ShardCore;
  readonly #doorbell: DoorbellOwner;
  readonly #acceptors: readonly Doorbell[];
  readonly #binlog: Doorbell;
  readonly #records: RecordLog | undefined;
  readonly #spin: IdleSpin;
  readonly #turns: TurnCounters;
  readonly #control: ControlWords;
  readonly #data: ShardThreadData;

  constructor(data: ShardThreadData) {
    this.#data = data;
    const { topology, shard } = data;
    this.#control = new ControlWords(topology.control);
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, shardThread(shard));
    this.#binlog = new Doorbell(words, binlogThread(topology));
    this.#records = this.#createRecords();
    this.#core = new ShardCore({
      topology,
      shard,
      quoteNames: data.quoteNames,
      ...(this.#records === undefined ? {} : { records: this.#records }),
    });
    this.#acceptors = this.#core.ports.map(
      (_, acceptor) => new Doorbell(words, acceptorThread(topology, acceptor)),
    );
    this.#spin = new IdleSpin(data.spinMs);
    this.#turns = new TurnCounters(this.#core.counters, this.#core.requests);
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
      waitForRoom: (records) => this.#waitForRecordRoom(records),
      currentFile: () => counters[Counter.BinlogCurrent]!,
    });
  }

  /** The binlog never waits for a shard, so this wait ends. */
  #waitForRecordRoom(records: RecordLog): void {
    const { ring } = records;
    if (records.publish()) this.#binlog.ring();
    this.#doorbell.prepare();
    ring.wantRoom();
    if (ring.hasRoom(ring.messageBytesMax)) this.#doorbell.cancel();
    else this.#doorbell.sleep(ROOM_SLEEP_MS);
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
      // The port closes after this turn of the event loop; from then on the thread has no event loop any more.
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
    const core = this.#core;
    const doorbell = this.#doorbell;
    const turns = this.#turns;
    for (;;) {
      // Nothing that is done now would be remembered; the process is about to end.
      while (this.#control.isSet(ControlWord.BinlogEnded)) doorbell.rest(SLEEP_MS_MAX);
      const nowMs = monotonicMs();
      turns.begin();
      const taken = core.step(nowMs);
      turns.end(taken);
      this.#publish();
      if (taken > 0 || core.hasWork) {
        this.#spin.worked(taken);
        continue;
      }
      if (this.#spin.wait(core, nowMs)) continue;
      doorbell.prepare();
      core.wantRoom();
      const sleepMs = Math.min(core.engine.nextDueAtMs - monotonicMs(), SLEEP_MS_MAX);
      if (core.hasWork || sleepMs <= 0) doorbell.cancel();
      else {
        turns.slept();
        doorbell.sleep(sleepMs);
      }
    }
  }

  /** Replies before the records that they wait for, so that the binlog may ring for both: see ReplyPort.publish. */
  #publish(): void {
    const shownRecord = this.#records?.shownNumber ?? 0;
    for (let acceptor = 0; acceptor < this.#acceptors.length; acceptor++) {
      const waits = this.#core.requests[acceptor]!.release();
      const answered = this.#core.ports[acceptor]!.publish(shownRecord);
      if (waits || answered) this.#turns.rang(this.#acceptors[acceptor]!.ring());
    }
    if (this.#records?.publish()) this.#turns.rang(this.#binlog.ring());
  }
}

new ShardThread(workerData as ShardThreadData).start();
