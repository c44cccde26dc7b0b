// A whole server without threads, sockets and clock: the loops of src/ over real rings, scheduled
// by one random source.
//
// Each thread drives its loop from point to point; this file replaces only what a thread.ts does at
// these points. The random source decides whether a loop yields where a real thread may lose its
// core (within a publication, a ring of the doorbell, or falling asleep), which thread goes on,
// whether it spins or looks again, and whether a ring comes late. A sleeping thread continues only
// when its doorbell rings or its time has come, so a lost wake-up stays visible.

import assert from "node:assert/strict";
import { acceptorGroup } from "../../src/acceptor/acceptor-group.ts";
import { AcceptorLoop } from "../../src/acceptor/acceptor-loop.ts";
import { AcceptorCore } from "../../src/acceptor/connection/acceptor-core.ts";
import { ConnectionMigrator } from "../../src/acceptor/migration/connection-migrator.ts";
import { MigrationReceiver } from "../../src/acceptor/migration/migration-receiver.ts";
import { type MigrationWay, MigrationWriter } from "../../src/acceptor/migration/migration-writer.ts";
import type { MovedConnection } from "../../src/acceptor/migration/moved-connection.ts";
import { type ProcessFacts, statsText } from "../../src/acceptor/state/stats-text.ts";
import { BinlogCore } from "../../src/binlog/binlog-core.ts";
import { BinlogLoop } from "../../src/binlog/binlog-loop.ts";
import { ColocatedLog } from "../../src/binlog/colocated-log.ts";
import type { Disk } from "../../src/binlog/disk/disk.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import type { OpenedBinlog } from "../../src/binlog/open-binlog.ts";
import type { RecoveredBatch } from "../../src/binlog/recovery/recovered-jobs.ts";
import type { BodyArena } from "../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../src/engine/jobs/job-table.ts";
import { BlockingLoop } from "../../src/loop/blocking-loop.ts";
import { Point, type Surroundings } from "../../src/loop/point.ts";
import {
  binlogBell,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  createTopology,
  httpBell,
  httpPort,
  type Placement,
  type ProtocolName,
  portBell,
  type ThreadRoles,
  type Topology,
  type TopologyOptions,
  threadOfShard,
} from "../../src/message/topology.ts";
import { TurnCounters } from "../../src/message/turn-counters.ts";
import { ControlWords } from "../../src/ring/control-words.ts";
import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../src/ring/doorbell.ts";
import { FileTable } from "../../src/ring/file-table.ts";
import { JobDirectory } from "../../src/ring/job-directory.ts";
import { JobIds } from "../../src/ring/job-ids.ts";
import { LentIds } from "../../src/ring/lent-ids.ts";
import type { LogWord } from "../../src/ring/log-words.ts";
import { createRing } from "../../src/ring/ring-layout.ts";
import {
  type OwnLog,
  type RecordRoomOptions,
  turnLog,
  waitForLend,
  waitForRecordRoom,
} from "../../src/shard/record-room.ts";
import { RecordLog } from "../../src/shard/records/record-log.ts";
import { Restore } from "../../src/shard/restore.ts";
import { ShardCore } from "../../src/shard/shard-core.ts";
import { ShardLoop } from "../../src/shard/shard-loop.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import { FakeSocket } from "./fake-socket.ts";
import { LateBells } from "./late-bells.ts";
import { DrawnPollPolicy, DrawnSpin } from "./model/drawn-waiting.ts";

export interface InProcessOptions {
  shards: number;
  acceptors: number;
  random: SeededRandom;
  jobBytesMax?: number;
  /** Capacity of each ring. */
  ringBytes?: number;
  /**
   * How likely a thread is held up at each place where it can be; 0 lets every thread run as long
   * as it has work.
   */
  holdUps?: number;
  /** How likely a thread without work looks once more before it sleeps. */
  pollChance?: number;
  /** How likely a ring of a doorbell comes late. */
  lateRings?: number;
  /** Whether doorbells are rung for nothing now and then. */
  strayRings?: boolean;
  /** Whether shards live in the threads of acceptors; apart if it is left out. */
  placement?: Placement;
  /** Threads of `together`. */
  threads?: number;
  /** How likely an acceptor takes a connection whose tube lives beside it; 0 for none. */
  migrations?: number;
  storedBytesMin?: number;
  protocol?: ProtocolName;
  /** Acceptors move the bytes of their sockets themselves, as with io_uring. */
  ownSockets?: boolean;
  compat?: "default" | "1.12" | "1.13";
  firstJobId?: number;
  arena?: (shard: number) => BodyArena;
  /** Jobs that a kick or the end of a connection moves in one turn of a shard. */
  turnJobsMax?: number;
  /** Things that are due and happen in one turn of a shard. */
  turnDueMax?: number;
  /** What a command costs at least: above what is cheap, each sets its connection aside. */
  commandWork?: number | undefined;
  /** A session with more tubes to choose from keeps them in an order. */
  orderedTubesMin?: number | undefined;
  /** How far the clock moves between two steps, ms at most. */
  tickMs?: number;
  /**
   * How likely what is due within a millisecond falls due while a shard is in its turn, at each
   * look at the clock.
   */
  dueInTurn?: number;
  /** How likely a thread that was held up is passed over: others do all that they can meanwhile. */
  longHoldUps?: number;
  /** How likely the log's thread is passed over while another can go on. */
  slowLog?: number;
  /** When the monotonic clock begins, ms. */
  startsAtMs?: number;
  log?: InProcessLog;
  /** Whether there is a port for the http thread, with its loop. */
  http?: boolean;
}

/** A log on a disk in memory; `opened` has its jobs still to be restored. */
export interface InProcessLog {
  readonly disk: Disk;
  readonly opened: OpenedBinlog;
  /** What replies wait for: under -f 0 that their records are synced. */
  readonly repliesWaitFor: LogWord;
  /** Capacity of each shard's ring to the log. */
  readonly recordRingBytes: number;
  /** Wall clock minus monotonic clock, ms. */
  readonly wallOffsetMs: number;
  /** It lives in the only thread that serves; else it has its own. */
  readonly isResident?: boolean;
}

/** A shard waits for room in its ring to a log that has ended: nothing will ever wake it. */
export class LogIsGone extends Error {}

/** What a thread waits for before it can go on; undefined when it can go on at once. */
type Blocked = (() => boolean) | undefined;
type ThreadSteps = Generator<Blocked, never, void>;

interface Thread {
  readonly name: string;
  readonly steps: ThreadSteps;
  /** Whether it can go on; undefined for "at once". */
  ready: Blocked;
}

/**
 * How likely a thread that sleeps is rung for nothing, at each step of a server that has such
 * rings.
 */
const STRAY_RINGS = 0.005;
const RING_BYTES = 1 << 16;
/** Commands to one shard after which a connection moves to it. */
const MOVE_COMMANDS = 2;
/** So small that many bodies of a simulation go past the rings. */
const STORED_BYTES_MIN = 10;
/** The same of those that are received and sent where they lie. */
const IN_PLACE_BYTES_MIN = 14;
/** A turn takes up to so long, ms: what is due within it may fall due before its end. */
const TURN_MS = 1;
/** A shard that waits for room in the middle of a command waits for fewer steps of the log. */
const ROOM_STEPS_MAX = 10_000;
/** Without rest after so many steps something runs in a circle. */
const SETTLE_STEPS_MAX = 200_000;
/** Due work without a wake stays due. */
const DUE_ROUNDS_MAX = 10_000;

export class InProcessServer {
  readonly topology: Topology;
  readonly acceptors: readonly AcceptorCore[];
  readonly shards: readonly ShardCore[];
  /** The virtual monotonic clock. */
  nowMs: number;
  /** How the log's thread has ended, if it has. */
  logEnd: "failed" | "closed" | undefined;
  /** Shards wait in the middle of a command for room in their rings to the log. */
  inRecordWait = false;
  readonly records: readonly RecordLog[];
  readonly log: InProcessLog | undefined;
  readonly binlog: BinlogCore | undefined;
  /** How far the clock moves between two steps, ms at most. */
  tickMs: number;
  /** See the option. */
  dueInTurn: number;
  halted = false;
  /** Steps taken so far. */
  stepsTaken = 0;
  readonly sockets: FakeSocket[][];
  /** All connections ever made to each acceptor. */
  readonly everySocket: readonly FakeSocket[][];
  /**
   * Told when a connection has left its slot at an acceptor, and when it has got one at another.
   */
  onDeparted: (socket: FakeSocket) => void = () => {};
  onLanded: (socket: FakeSocket, acceptor: number) => void = () => {};
  /** Sockets between two acceptors, by their numbers. */
  readonly #away = new Map<number, FakeSocket>();
  /** Connections that have moved so far. */
  moved = 0;
  readonly #random: SeededRandom;
  readonly #holdUps: number;
  readonly #pollChance: number;
  readonly #strayRings: number;
  readonly #ownSockets: boolean;
  readonly #words: Int32Array;
  readonly #bells: LateBells;
  readonly #surroundings: Surroundings = { nowMs: () => this.nowMs, isHeldUp: () => this.#heldUp() };
  /** The port of the http thread, and what has its loop take a turn soon. */
  readonly http: { readonly core: AcceptorCore; wake: () => void } | undefined;
  /** For each thread with acceptors. */
  readonly loops: AcceptorLoop[] = [];
  readonly #threads: Thread[];
  readonly #firstJobId: number;
  readonly #slowLog: number;
  readonly #longHoldUps: number;
  #logThread: Thread | undefined;
  /** The thread whose step this is, and those that were held up in their last. */
  #running: Thread | undefined;
  readonly #heldUpThreads = new Set<Thread>();
  readonly #ownLog: OwnLog = { log: undefined };
  /** Turns that shards have had a log of their own thread take, since a step of the server. */
  #roomSteps = 0;
  #nextAcceptor = 0;
  /** Acceptors that have been told to stop and have not begun to. */
  readonly #toStop = new Set<number>();

  constructor(options: InProcessOptions) {
    const { shards, acceptors, jobBytesMax = 65535, ringBytes = RING_BYTES, compat = "default" } = options;
    this.#random = options.random;
    this.#holdUps = options.holdUps ?? 0;
    this.tickMs = options.tickMs ?? 0;
    this.nowMs = options.startsAtMs ?? 1_000_000;
    this.log = options.log;
    const { placement = "apart", threads = acceptors, storedBytesMin = STORED_BYTES_MIN } = options;
    const { protocol = "extended" } = options;
    const http = options.http === true ? { http: true } : {};
    this.topology = topologyFor(
      {
        shards,
        acceptors,
        placement,
        threads,
        protocol,
        jobBytesMax,
        storedBytesMin,
        inPlaceBytesMin: IN_PLACE_BYTES_MIN,
        ringBytes,
        migration: (options.migrations ?? 0) > 0,
        ...http,
      },
      this.log,
    );
    this.#slowLog = options.slowLog ?? 0;
    this.dueInTurn = options.dueInTurn ?? 0;
    this.#longHoldUps = options.longHoldUps ?? 0;
    this.#firstJobId = options.firstJobId ?? 1;
    new JobIds(new Int32Array(this.topology.control), ControlWord.JobIds).reset(this.#firstJobId);
    this.#words = new Int32Array(this.topology.doorbells);
    this.#pollChance = options.pollChance ?? 0;
    this.#strayRings = options.strayRings === true ? STRAY_RINGS : 0;
    this.#ownSockets = options.ownSockets === true;
    const { lateRings = 0 } = options;
    this.#bells = new LateBells(this.#words, () => lateRings > 0 && this.#random.chance(lateRings));
    const facts = processFacts(compat, this.nowMs);
    const { topology } = this;
    this.binlog = topology.binlog === undefined ? undefined : new BinlogCore(topology);
    this.records = this.log === undefined ? [] : this.#createRecords(this.log);
    this.shards = Array.from(
      { length: shards },
      (_, shard) =>
        new ShardCore({
          topology: this.topology,
          shard,
          quoteNames: compat === "1.13",
          clock: () => this.#clockInTurn(shard),
          ...(this.log === undefined ? {} : { records: this.records[shard]! }),
          ...(options.arena === undefined ? {} : { arena: options.arena(shard) }),
          ...(options.turnJobsMax === undefined ? {} : { turnJobsMax: options.turnJobsMax }),
          ...(options.turnDueMax === undefined ? {} : { turnDueMax: options.turnDueMax }),
          ...(options.commandWork === undefined ? {} : { commandWork: options.commandWork }),
          ...(options.orderedTubesMin === undefined ? {} : { orderedTubesMin: options.orderedTubesMin }),
        }),
    );
    this.acceptors = Array.from(
      { length: acceptors },
      (_, acceptor) =>
        new AcceptorCore({
          topology: this.topology,
          acceptor,
          nowMs: () => this.nowMs,
          statsText: () => statsText(this.topology, facts, this.nowMs),
        }),
    );
    this.http = options.http === true ? { core: this.#httpCore(facts), wake: () => {} } : undefined;
    if (topology.migrationRings.length > 0) this.#beginMigration(options.migrations!);
    this.sockets = this.acceptors.map(() => []);
    this.everySocket = this.acceptors.map(() => []);
    this.#threads = [
      ...topology.threads.map((thread, index) =>
        thread.acceptors.length === 0
          ? this.#shardThread(thread.shards[0]!, index)
          : this.#acceptorThread(thread, index),
      ),
      { name: "late rings", steps: this.#ringLate(), ready: () => this.#bells.hasLate },
    ];
    if (this.http !== undefined) this.#threads.push(this.#httpThread(this.http));
    if (this.binlog === undefined) return;
    if (topology.binlog!.thread !== undefined) {
      this.#addResidentLog(this.binlog, this.storage!);
      return;
    }
    this.#logThread = this.#binlogThread(this.binlog, this.storage!);
    this.#threads.push(this.#logThread);
  }

  /** As src/threads/thread.ts does. */
  #addResidentLog(core: BinlogCore, storage: Storage): void {
    const counters = new TurnCounters(core.counters, core.rings);
    const role = this.#binlogRole(core, storage, counters);
    const log = new ColocatedLog(role, () => {
      this.logEnd = role.close() === undefined ? "closed" : "failed";
    });
    this.loops[this.topology.binlog!.thread!]!.log = log;
    this.#ownLog.log = log;
  }

  /** What src/acceptor/acceptor.ts does. */
  #beginMigration(likely: number): void {
    for (const [acceptor, core] of this.acceptors.entries()) {
      core.migrator = new ConnectionMigrator({
        topology: this.topology,
        core,
        acceptor,
        loads: { mayTakeOne: () => this.#random.chance(likely) },
        commands: MOVE_COMMANDS,
        nowMs: () => this.nowMs,
        ways: this.topology.migrationRings[acceptor]!.map((ring) => ring && this.#wayFrom(acceptor, ring)),
      });
      const rings = this.topology.migrationRings.flatMap((ways) => ways[acceptor] ?? []);
      core.migrationReceiver = new MigrationReceiver(rings, (moved) => {
        const changed = this.onTheWay(moved);
        if (changed !== undefined) this.#land(acceptor, changed);
      });
    }
  }

  /** What becomes of a connection between two acceptors. */
  protected onTheWay(moved: MovedConnection): MovedConnection | undefined {
    return moved;
  }

  #wayFrom(acceptor: number, ring: SharedArrayBuffer): MigrationWay {
    const writer = new MigrationWriter(ring);
    return {
      hasRoom: (state) => writer.hasRoom(state),
      publish: () => writer.publish(),
      write: (handedOver, number, state) => {
        this.#departed(acceptor, handedOver.descriptor);
        writer.write(handedOver, number, state);
      },
    };
  }

  #departed(acceptor: number, descriptor: number): void {
    const sockets = this.sockets[acceptor]!;
    const index = sockets.findIndex((each) => each.descriptor === descriptor);
    const [socket] = sockets.splice(index, 1);
    this.#away.set(descriptor, socket!);
    this.onDeparted(socket!);
  }

  #land(acceptor: number, moved: MovedConnection): void {
    const socket = this.#away.get(moved.descriptor)!;
    this.#away.delete(moved.descriptor);
    this.sockets[acceptor]!.push(socket);
    for (const all of this.everySocket) if (all.includes(socket)) all.splice(all.indexOf(socket), 1);
    this.everySocket[acceptor]!.push(socket);
    this.moved++;
    socket.land(this.acceptors[acceptor]!, moved, () => this.onLanded(socket, acceptor));
  }

  // --- the log -----------------------------------------------------------------------------------

  get storage(): Storage | undefined {
    return this.log?.opened.storage;
  }

  #createRecords(log: InProcessLog): RecordLog[] {
    const control = new ControlWords(this.topology.control);
    const counters = countersOf(this.topology, binlogRole(this.topology));
    const lent = new LentIds(control.words, ControlWord.IdsLent);
    return Array.from({ length: this.topology.shards }, (_, shard) => {
      const room = this.#recordRoom(shard);
      return new RecordLog({
        binlog: this.topology.binlog!,
        shard,
        isFull: () => control.isSet(ControlWord.BinlogFull),
        isWaiting: () => control.isSet(ControlWord.BinlogWaits),
        wallOffsetMs: () => log.wallOffsetMs,
        waitForRoom: (records) => waitForRecordRoom(records, room),
        lent,
        waitForLend: (records, id) => waitForLend(records, room, lent, id),
        currentFile: () => counters[Counter.BinlogCurrent]!,
      });
    });
  }

  #recordRoom(shard: number): RecordRoomOptions {
    const thread = threadOfShard(this.topology, shard);
    const doorbell = this.createOwner(this.#words, thread);
    const binlog = this.createBell(thread, binlogBell(this.topology));
    const sleep =
      this.topology.binlog!.thread === undefined
        ? () => this.#sleepForRoom(doorbell, thread)
        : () => this.#turnForRoom(doorbell);
    return { doorbell, binlog, sleep };
  }

  /** The log lives in the shard's thread. */
  #turnForRoom(doorbell: DoorbellOwner): void {
    if (this.logEnd !== undefined) throw new LogIsGone("a shard waits for a log that has ended");
    this.inRecordWait = true;
    if (this.storage!.waiting) this.nowMs = Math.max(this.nowMs, this.storage!.nextDeadline());
    const before = this.#roomSteps++;
    assert.ok(before < ROOM_STEPS_MAX, "the log makes room while a shard waits for it");
    turnLog(this.#ownLog, doorbell, this.nowMs);
    this.inRecordWait = false;
  }

  /**
   * Only the log's thread runs while a shard sleeps in the middle of a command: its engine is in
   * the middle of a call.
   */
  #sleepForRoom(doorbell: DoorbellOwner, thread: number): void {
    const log = this.#logThread!;
    this.inRecordWait = true;
    this.fallAsleep(doorbell);
    this.#bells.ringAll();
    for (let steps = 0; !this.#isRung(thread); steps++, this.#bells.ringAll()) {
      assert.ok(steps < ROOM_STEPS_MAX, "the log makes room while a shard waits for it");
      if (this.logEnd !== undefined) throw new LogIsGone("a shard waits for a log that has ended");
      // Nothing else happens until it tries again to write.
      if (this.storage!.waiting) this.nowMs = Math.max(this.nowMs, this.storage!.nextDeadline());
      assert.ok(
        log.ready === undefined || log.ready(),
        "the log rings a shard that waits for room when it has made some",
      );
      log.ready = log.steps.next().value;
    }
    doorbell.cancel();
    this.inRecordWait = false;
  }

  /**
   * Brings the log's jobs into their shards, before the first step; `onBatch` sees them as they lie
   * in the log.
   */
  restore(onBatch: (batch: RecoveredBatch) => void = () => {}): void {
    const { topology } = this;
    const { opened, wallOffsetMs } = this.log!;
    this.binlog!.beginIds(this.firstJobId(opened));
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const files = new FileTable(topology.binlog!.files);
    const restores = this.shards.map(
      ({ engine }, shard) =>
        new Restore(engine, wallOffsetMs, this.nowMs, (id) => {
          directory?.set(id, shard);
          return files.find(id);
        }),
    );
    for (const { tubeSetter } of this.shards) tubeSetter.restore(opened.settings, this.nowMs);
    for (const batch of this.binlog!.recovered(opened)) {
      onBatch(batch);
      for (const [shard, restore] of restores.entries()) restore.load(batch.bytes, batch.jobs[shard]!);
    }
    for (const [shard, restore] of restores.entries()) {
      restore.finish();
      this.records[shard]!.attach(this.shards[shard]!.engine, restore.burySequence);
    }
    this.binlog!.publishProgress(opened.storage);
    this.binlog!.publishState(opened.storage);
  }

  protected firstJobId(opened: OpenedBinlog): number {
    return Math.max(opened.nextId, this.#firstJobId);
  }

  /**
   * Has the log made durable and closed, after the acceptors have stopped; `logEnd` tells when it
   * is.
   */
  stopLog(): void {
    new ControlWords(this.topology.control).set(ControlWord.BinlogStop);
    new Doorbell(this.#words, binlogBell(this.topology)).ring();
  }

  /** The id of the job in a slot of a shard. */
  jobId(shard: number, slot: number): number {
    return this.shards[shard]!.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  /** The power is gone: no thread goes on. */
  halt(): void {
    this.halted = true;
  }

  takeTime(ms: number): void {
    this.nowMs += ms;
  }

  /**
   * A disk can't fail or lose power while an engine waits in the middle of a call: the model could
   * not follow it.
   */
  get sheltered(): boolean {
    return this.inRecordWait;
  }

  /** Whether clients are refused new jobs because the log has no room. */
  get isFull(): boolean {
    return new ControlWords(this.topology.control).isSet(ControlWord.BinlogFull);
  }

  /** Sets drain mode, as SIGUSR1 does. */
  drain(): void {
    new ControlWords(this.topology.control).set(ControlWord.Draining);
  }

  /** Tells all acceptors to stop: to answer what is under way and close all connections. */
  stop(): void {
    for (const acceptor of this.acceptors.keys()) this.#toStop.add(acceptor);
  }

  /** A new client, at the acceptors in turn unless one is named. */
  connect(acceptor: number = this.#nextAcceptor++ % this.acceptors.length): FakeSocket {
    const socket = new FakeSocket(this.acceptors[acceptor]!, this.#ownSockets);
    socket.open();
    this.sockets[acceptor]!.push(socket);
    this.everySocket[acceptor]!.push(socket);
    return socket;
  }

  // --- the threads -------------------------------------------------------------------------------

  /** Whether the thread is held up here. */
  #heldUp(): boolean {
    const isHeldUp = this.#holdUps > 0 && this.#random.chance(this.#holdUps);
    if (isHeldUp && this.#running !== undefined) this.#heldUpThreads.add(this.#running);
    return isHeldUp;
  }

  #isRung(thread: number): boolean {
    return this.#words[thread * DOORBELL_WORDS] === 0;
  }

  /** A thread's own doorbell. */
  protected createOwner(words: Int32Array, thread: number): DoorbellOwner {
    return new DoorbellOwner(words, thread);
  }

  /** The bell of thread `to`, rung by `from`. */
  protected createBell(_from: number, to: number): Doorbell {
    return this.#bells.bell(to);
  }

  #createBells(from: number, count: number, thread: (each: number) => number): Doorbell[] {
    return Array.from({ length: count }, (_, each) => this.createBell(from, thread(each)));
  }

  /** The thread has announced its sleep, and looked once more. */
  protected fallAsleep(_owner: DoorbellOwner): void {}

  #shardRole(shard: number, counters: TurnCounters): ShardLoop {
    const { topology } = this;
    const thread = threadOfShard(topology, shard);
    return new ShardLoop({
      core: this.shards[shard]!,
      records: this.records[shard],
      control: new ControlWords(topology.control),
      acceptors: this.#createBells(thread, topology.ports, (port) => portBell(topology, port)),
      binlog: this.createBell(thread, binlogBell(topology)),
      counters,
      surroundings: this.#surroundings,
    });
  }

  #shardCounters(shard: number): TurnCounters {
    const core = this.shards[shard]!;
    return new TurnCounters(core.counters, core.requests);
  }

  #shardThread(shard: number, thread: number): Thread {
    const doorbell = this.createOwner(this.#words, thread);
    const counters = this.#shardCounters(shard);
    const surroundings = this.#surroundings;
    const role = this.#shardRole(shard, counters);
    const loop = new BlockingLoop({ role, doorbell, counters, spin: this.#createSpin(), surroundings });
    const steps = this.#blockingSteps(loop, doorbell, thread, () => {});
    return { name: `shard ${shard}`, steps, ready: undefined };
  }

  #binlogThread(core: BinlogCore, storage: Storage): Thread {
    const thread = binlogBell(this.topology);
    const doorbell = this.createOwner(this.#words, thread);
    const counters = new TurnCounters(core.counters, core.rings);
    const surroundings = this.#surroundings;
    const role = this.#binlogRole(core, storage, counters);
    const loop = new BlockingLoop({ role, doorbell, counters, spin: this.#createSpin(), surroundings });
    const steps = this.#blockingSteps(loop, doorbell, thread, () => {
      this.logEnd = role.close() === undefined ? "closed" : "failed";
    });
    return { name: "binlog", steps, ready: undefined };
  }

  #binlogRole(core: BinlogCore, storage: Storage, counters: TurnCounters): BinlogLoop {
    const { topology } = this;
    const thread = binlogBell(topology);
    return new BinlogLoop({
      core,
      storage,
      control: new ControlWords(topology.control),
      shards: this.#createBells(thread, topology.shards, (shard) => threadOfShard(topology, shard)),
      acceptors: this.#createBells(thread, topology.ports, (port) => portBell(topology, port)),
      counters,
      givesWay: topology.binlog!.thread !== undefined,
      surroundings: this.#surroundings,
    });
  }

  #createSpin(): DrawnSpin {
    return new DrawnSpin(this.#random, this.#pollChance);
  }

  /** What src/shard/shard-thread.ts and src/binlog/thread.ts answer to the points of their loop. */
  *#blockingSteps(loop: BlockingLoop, owner: DoorbellOwner, thread: number, onEnd: () => void): ThreadSteps {
    for (;;) {
      const point = loop.next();
      if (point === Point.Asleep) {
        this.fallAsleep(owner);
        yield () => this.#isRung(thread) || this.nowMs >= loop.wakeAtMs;
        owner.cancel();
      } else if (point === Point.Ended) {
        onEnd();
        for (;;) yield () => false;
      } else yield undefined;
    }
  }

  #acceptorThread({ acceptors, shards }: ThreadRoles, thread: number): Thread {
    const { topology } = this;
    const cores = acceptors.map((acceptor) => this.acceptors[acceptor]!);
    const doorbell = this.createOwner(this.#words, thread);
    const loop = new AcceptorLoop({
      core: acceptorGroup(cores),
      doorbell,
      shards: this.#createBells(thread, topology.shards, (shard) => threadOfShard(topology, shard)),
      counters: new TurnCounters(
        cores[0]!.counters,
        cores.flatMap(({ links }) => links.responses),
      ),
      pollPolicy: new DrawnPollPolicy(this.#random, this.#pollChance),
      surroundings: this.#surroundings,
    });
    this.loops.push(loop);
    for (const shard of shards) {
      loop.residents.push(this.#shardRole(shard, this.#shardCounters(shard)));
      for (const core of cores) core.arenas[shard] = this.shards[shard]!.engine.bodies;
    }
    const steps = this.#acceptorSteps(acceptors, thread, loop, doorbell);
    return { name: `acceptor ${acceptors.join(", ")}`, steps, ready: undefined };
  }

  /**
   * What src/acceptor/acceptor-thread.ts answers to the points of its loop, with an event loop of
   * its own.
   */
  *#acceptorSteps(
    acceptors: readonly number[],
    thread: number,
    loop: AcceptorLoop,
    owner: DoorbellOwner,
  ): ThreadSteps {
    let scheduled = true;
    const wake = (): void => {
      loop.wake();
      scheduled = true;
    };
    const isRung = (): boolean => loop.asleep && (this.#isRung(thread) || this.nowMs >= loop.wakeAtMs);
    const moveBytes = (isReading: boolean): number => this.#moveAllBytes(acceptors, loop, wake, isReading);
    if (this.#ownSockets) loop.sockets = { turn: () => moveBytes(true) };
    for (;;) {
      yield () => scheduled || acceptors.some((each) => this.#hasSocketEvent(each)) || isRung();
      if (isRung()) wake();
      // Sockets of its own are read here only where the thread waits for them in the kernel.
      if (loop.sockets === undefined) moveBytes(true);
      else if (!scheduled) moveBytes(false);
      if (!scheduled) continue;
      scheduled = false;
      let point = loop.next();
      for (; point === Point.HeldUp; point = loop.next()) yield undefined;
      if (point === Point.Turned) scheduled = true;
      else this.fallAsleep(owner);
    }
  }

  /** As src/http/http-thread.ts makes it. */
  #httpCore(facts: ProcessFacts): AcceptorCore {
    const { topology } = this;
    return new AcceptorCore({
      topology,
      acceptor: httpPort(topology),
      nowMs: () => this.nowMs,
      statsText: () => statsText(topology, facts, this.nowMs),
      firstSlot: 1,
      extended: true,
    });
  }

  /** What src/http/link/port-loop.ts does: the loop has no sockets, and requests wake it. */
  #httpThread(port: { readonly core: AcceptorCore; wake: () => void }): Thread {
    const { topology } = this;
    const thread = httpBell(topology);
    const owner = this.createOwner(this.#words, thread);
    const loop = new AcceptorLoop({
      core: port.core,
      doorbell: owner,
      shards: this.#createBells(thread, topology.shards, (shard) => threadOfShard(topology, shard)),
      counters: new TurnCounters(port.core.counters, port.core.links.responses),
      pollPolicy: new DrawnPollPolicy(this.#random, this.#pollChance),
      surroundings: this.#surroundings,
    });
    let scheduled = true;
    port.wake = () => {
      loop.wake();
      scheduled = true;
    };
    const isRung = (): boolean => loop.asleep && this.#isRung(thread);
    const steps = function* (this: InProcessServer): ThreadSteps {
      for (;;) {
        yield () => scheduled || isRung();
        if (isRung()) port.wake();
        scheduled = false;
        let point = loop.next();
        for (; point === Point.HeldUp; point = loop.next()) yield undefined;
        if (point === Point.Turned) scheduled = true;
        else this.fallAsleep(owner);
      }
    };
    return { name: "http", steps: steps.call(this), ready: undefined };
  }

  /** The events of the sockets of a thread, all or some. Returns how many told of clients. */
  #moveAllBytes(
    acceptors: readonly number[],
    loop: AcceptorLoop,
    wake: () => void,
    isReading: boolean,
  ): number {
    let told = 0;
    for (const acceptor of acceptors) told += this.#moveBytes(acceptor, loop, wake, isReading);
    return told;
  }

  #moveBytes(acceptor: number, loop: AcceptorLoop, wake: () => void, isReading: boolean): number {
    let events = 0;
    let told = 0;
    while (this.#hasSocketEvent(acceptor) && !(events > 0 && this.#heldUp())) {
      if (this.#handleSocketEvent(acceptor)) {
        wake();
        told++;
      } else if (!isReading || loop.sockets === undefined) wake();
      events++;
    }
    // A read barrier must not be answered while some sockets are unread.
    if (isReading && !this.#hasSocketEvent(acceptor)) this.acceptors[acceptor]!.barriers.haveRead();
    return told;
  }

  *#ringLate(): ThreadSteps {
    for (;;) {
      this.#bells.ringOne();
      yield () => this.#bells.hasLate;
    }
  }

  #hasSocketEvent(acceptor: number): boolean {
    return this.#toStop.has(acceptor) || this.sockets[acceptor]!.some((socket) => socket.hasEvent);
  }

  /** Returns whether it told of a client. */
  #handleSocketEvent(acceptor: number): boolean {
    if (this.#toStop.delete(acceptor)) {
      this.acceptors[acceptor]!.endAll();
      return true;
    }
    const sockets = this.sockets[acceptor]!;
    const ready = sockets.filter((socket) => socket.hasEvent);
    const socket = this.#random.pick(ready)!;
    const tells = socket.handleEvent(
      this.#holdUps > 0 && this.#random.chance(0.3) ? this.#random.between(1, 40) : 65536,
    );
    if (socket.isClosed) sockets.splice(sockets.indexOf(socket), 1);
    return tells;
  }

  /**
   * The clock as a shard reads it in the middle of a turn: what was not due at its beginning may be
   * due now.
   */
  #clockInTurn(shard: number): number {
    if (this.dueInTurn === 0) return this.nowMs;
    // Nothing is due while the shards are being made.
    const dueMs = this.shards?.[shard]?.engine.nextDueAtMs ?? Number.POSITIVE_INFINITY;
    const isSoon = dueMs > this.nowMs && dueMs <= this.nowMs + TURN_MS;
    if (isSoon && this.#random.chance(this.dueInTurn)) this.nowMs = dueMs;
    return this.nowMs;
  }

  // --- time and order ----------------------------------------------------------------------------

  /** Lets one thread go on, drawn from those that can; false if all sleep. */
  step(): boolean {
    if (this.halted) return false;
    const ready = this.#threads.filter((thread) => thread.ready === undefined || thread.ready());
    let thread = this.#random.pick(ready);
    if (thread === undefined) return false;
    if (thread === this.#logThread && ready.length > 1 && this.#random.chance(this.#slowLog))
      thread = ready.find((each) => each !== thread)!;
    if (this.#longHoldUps > 0) thread = this.#passOver(thread, ready);
    this.stepsTaken++;
    this.#roomSteps = 0;
    if (this.tickMs > 0) this.nowMs += this.#random.next() * this.tickMs;
    if (this.#strayRings > 0 && this.#random.chance(this.#strayRings)) this.#ringForNothing();
    thread.ready = thread.steps.next().value;
    return true;
  }

  /** The thread that goes on: another where `thread` is held up for longer. */
  #passOver(thread: Thread, ready: readonly Thread[]): Thread {
    let next = thread;
    if (this.#heldUpThreads.has(thread) && this.#random.chance(this.#longHoldUps))
      next = this.#random.pick(ready.filter((each) => !this.#heldUpThreads.has(each))) ?? thread;
    this.#heldUpThreads.delete(next);
    this.#running = next;
    return next;
  }

  #ringForNothing(): void {
    new Doorbell(this.#words, this.#random.between(0, this.#words.length / DOORBELL_WORDS - 1)).ring();
  }

  /**
   * Steps until every thread sleeps, no socket has anything for the server, and the log waits for
   * no room.
   */
  settle(): void {
    for (let steps = 0; this.step() || this.#logTriesAgain(); steps++) {
      assert.ok(steps < SETTLE_STEPS_MAX, "the server comes to rest");
    }
  }

  /** The next try of a log that waits for room is due: everybody else is at rest until then. */
  #logTriesAgain(): boolean {
    if (this.halted || this.logEnd !== undefined || this.storage?.waiting !== true) return false;
    this.nowMs = Math.max(this.nowMs, this.storage.nextDeadline());
    return true;
  }

  /** When the next timer of any shard or of the log is due, or Infinity. */
  get nextDueAtMs(): number {
    const logDueAtMs = this.logEnd === undefined ? this.storage?.nextDeadline() : undefined;
    return Math.min(
      ...this.shards.map((core) => core.engine.nextDueAtMs),
      logDueAtMs ?? Number.POSITIVE_INFINITY,
    );
  }

  /** Lets `ms` pass, stopping at everything that is due on the way. */
  advance(ms: number): void {
    this.settle();
    const untilMs = this.nowMs + ms;
    for (let rounds = 0, dueMs = this.nextDueAtMs; dueMs <= untilMs; rounds++, dueMs = this.nextDueAtMs) {
      assert.ok(rounds < DUE_ROUNDS_MAX, "what is due is done");
      this.nowMs = Math.max(this.nowMs, dueMs);
      this.settle();
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
    this.settle();
  }
}

/** With rings to the log of a size of their own: in a simulation they must fill up. */
function topologyFor(options: TopologyOptions, log: InProcessLog | undefined): Topology {
  if (log === undefined) return createTopology(options);
  const { repliesWaitFor, recordRingBytes, isResident = false } = log;
  const topology = createTopology({ ...options, binlog: { repliesWaitFor, segmentBytes: 0, isResident } });
  const rings = Array.from({ length: options.shards }, () => createRing(recordRingBytes));
  return { ...topology, binlog: { ...topology.binlog!, rings } };
}

function processFacts(compat: string, startedAtMs: number): ProcessFacts {
  return {
    version: compat === "1.12" || compat === "1.13" ? compat : "0.0.0",
    pid: 1,
    instanceId: "0123456789abcdef",
    hostname: "simulated",
    os: "#1 simulated",
    platform: "none",
    bareFacts: compat === "1.12",
    binlogMaxBytes: 10485760,
    startedAtMs,
  };
}
