// One shard with everything that its thread needs: engine, part of the log, loop. The thread is its
// own or an acceptor's.

import { assert } from "../base/assert.ts";
import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { BlockingLoop } from "../loop/blocking-loop.ts";
import { Point, REAL_THREAD, type ResidentShard, type Surroundings } from "../loop/role.ts";
import { IdleSpin, ROOM_SLEEP_MS, SLEEP_MS_MAX, type Waiting } from "../loop/waiting-policy.ts";
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
import { FileTable, JobDirectory } from "../ring/job-directory.ts";
import { JobIds, LentIds } from "../ring/job-ids.ts";
import { Lease, monotonicMs, wallOffsetMs } from "../ring/monotonic-clock.ts";
import { RecordLog } from "./records/record-log.ts";
import {
  type OwnLog,
  type RecordRoomOptions,
  turnLog,
  waitForLend,
  waitForRecordRoom,
} from "./records/record-room.ts";
import { Restore } from "./records/restore.ts";
import { zoneWarnings } from "./schedules/cron-times.ts";
import { ShardCore } from "./shard-core.ts";

// The loop of a shard: one turn after another, each with its publications. Its thread sleeps
// between turns (loop/).

/**
 * The next step. Replies are published before the records that they wait for, so that the binlog
 * may ring for both: see ReplyPort.publish.
 */
const Action = {
  Step: 0,
  Release: 1,
  PublishReplies: 2,
  RingAcceptor: 3,
  PublishRecords: 4,
  RingLog: 5,
} as const;
type Action = (typeof Action)[keyof typeof Action];

interface ShardLoopOptions {
  readonly core: ShardCore;
  readonly records: RecordLog | undefined;
  readonly control: ControlWords;
  /** The doorbell of each acceptor. */
  readonly acceptors: readonly Doorbell[];
  readonly binlog: Doorbell;
  readonly counters: TurnCounters;
  readonly surroundings: Surroundings;
  /**
   * In a group: the lease that permits serving. After its end no message is taken and no timer
   * expires. Its renewal rings the doorbell.
   */
  readonly lease?: Lease | undefined;
}

export class ShardLoop implements ResidentShard {
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  readonly #options: ShardLoopOptions;
  #action: Action = Action.Step;
  /** The acceptor whose turn it is. */
  #acceptor = 0;
  /** Whether that acceptor waits for the room that was released. */
  #waits = false;

  constructor(options: ShardLoopOptions) {
    this.#options = options;
  }

  get isInTurn(): boolean {
    return this.#action !== Action.Step;
  }

  get hasWork(): boolean {
    const { core, lease } = this.#options;
    return core.hasWork && (lease === undefined || !this.#isOver(lease));
  }

  get hasCommands(): boolean {
    const { core, lease } = this.#options;
    return core.hasCommands && (lease === undefined || !this.#isOver(lease));
  }

  get nextDueAtMs(): number {
    const { core, lease } = this.#options;
    return lease !== undefined && this.#isOver(lease) ? Number.POSITIVE_INFINITY : core.nextDueAtMs;
  }

  #isOver(lease: Lease): boolean {
    return lease.isOver(this.#options.surroundings.nowMs());
  }

  wantRoom(): void {
    this.#options.core.wantRoom();
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { core, records, control, acceptors, binlog, counters, surroundings, lease } = this.#options;
    for (;;) {
      switch (this.#action) {
        case Action.Step:
          // Changes made now would be lost: the process is about to end.
          if (control.isSet(ControlWord.NoMoreReplies)) return Point.Ended;
          this.begunAtMs = surroundings.nowMs();
          if (lease?.isOver(this.begunAtMs)) return this.#turnedFrozen();
          counters.begin();
          this.taken = core.step(this.begunAtMs);
          counters.end(this.taken);
          this.#acceptor = 0;
          this.#action = Action.Release;
          break;
        case Action.Release:
          this.#waits = core.requests[this.#acceptor]!.release();
          this.#action = Action.PublishReplies;
          break;
        case Action.PublishReplies: {
          const answered = core.ports[this.#acceptor]!.publish(records?.shownNumber ?? 0);
          this.#action = Action.RingAcceptor;
          if (this.#waits || answered) break;
          if (this.#nextAcceptor()) continue;
          break;
        }
        case Action.RingAcceptor:
          counters.rang(acceptors[this.#acceptor]!.ring());
          if (this.#nextAcceptor()) continue;
          break;
        case Action.PublishRecords:
          if (!records?.publish()) return this.#turned();
          this.#action = Action.RingLog;
          break;
        case Action.RingLog:
          counters.rang(binlog.ring());
          return this.#turned();
      }
      if (surroundings.isHeldUp()) return Point.HeldUp;
    }
  }

  /** Advances to the next acceptor. Returns false after the last. */
  #nextAcceptor(): boolean {
    const isLast = ++this.#acceptor === this.#options.acceptors.length;
    assert(this.#acceptor <= this.#options.acceptors.length, "a turn visits each acceptor once");
    this.#action = isLast ? Action.PublishRecords : Action.Release;
    return !isLast;
  }

  #turnedFrozen(): Point {
    assert(this.#action === Action.Step, "a lease ends between two turns");
    this.taken = 0;
    this.hasMore = false;
    return Point.Turned;
  }

  #turned(): Point {
    assert(this.#acceptor === this.#options.acceptors.length, "a turn ends after a visit to each acceptor");
    this.hasMore = this.taken > 0 || this.#options.core.hasWork;
    this.#action = Action.Step;
    return Point.Turned;
  }
}

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
      keySeed: [randomWord(), randomWord()],
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

// A shard with its own thread: loads its part of the log, then runs its loop and sleeps when the
// loop does.

/**
 * Loads the shard's jobs, then serves for ever. From then on the thread's event loop does not run.
 */
export function runShard(options: ShardRuntimeOptions, waiting: Waiting): void {
  const { topology, shard } = options;
  const doorbell = new DoorbellOwner(new Int32Array(topology.doorbells), threadOfShard(topology, shard));
  const runtime = new ShardRuntime(options);
  const { role, counters } = runtime;
  const spin = new IdleSpin(waiting.spinMs, monotonicMs);
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
