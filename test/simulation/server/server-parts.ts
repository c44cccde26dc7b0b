// Parts of a server in one process: its clock, rings, doorbells, cores, sockets and records.

import assert from "node:assert/strict";
import type { AcceptorLoop } from "../../../src/acceptor/acceptor-loop.ts";
import { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import type { MovedConnection } from "../../../src/acceptor/migration/client-state.ts";
import { type ProcessFacts, statsText } from "../../../src/acceptor/state/stats-text.ts";
import type { BinlogLoop } from "../../../src/binlog/binlog-loop.ts";
import type { LogClock } from "../../../src/binlog/live/log-clock.ts";
import type { Storage } from "../../../src/binlog/live/storage.ts";
import type { OpenedBinlog } from "../../../src/binlog/open-binlog.ts";
import type { Surroundings } from "../../../src/loop/role.ts";
import {
  binlogBell,
  ControlWord,
  httpPort,
  type Topology,
  threadOfShard,
} from "../../../src/message/topology.ts";
import { DOORBELL_WORDS, type Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { JobIds } from "../../../src/ring/shared-words.ts";
import { type OwnLog, RecordLog, type RecordRoom, turnLog } from "../../../src/shard/records/record-log.ts";
import { ShardCore } from "../../../src/shard/shard-core.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";
import type { FakeSocket } from "./fake-socket.ts";
import {
  IN_PLACE_BYTES_MIN,
  type InProcessLog,
  type InProcessOptions,
  LogIsGone,
  processFacts,
  RING_BYTES,
  STORED_BYTES_MIN,
  STRAY_RINGS,
  type Thread,
  topologyFor,
} from "./in-process-options.ts";
import { LateBells } from "./late-bells.ts";

/** A turn takes up to so long, ms: what is due within it may fall due before its end. */
const TURN_MS = 1;

/** A shard that waits for room in the middle of a command waits for fewer steps of the log. */
const ROOM_STEPS_MAX = 10_000;

export class ServerParts {
  readonly topology: Topology;
  readonly acceptors: readonly AcceptorCore[];
  readonly shards: readonly ShardCore[];
  /** The virtual monotonic clock. */
  nowMs: number;
  /** End of the log's thread, if it has ended. */
  logEnd: "failed" | "closed" | undefined;
  /** Shards wait in the middle of a command for room in their rings to the log. */
  inRecordWait = false;
  readonly records: readonly RecordLog[];
  readonly log: InProcessLog | undefined;
  binlog: BinlogLoop | undefined;
  readonly logClock: LogClock | undefined;
  /** Largest advance of the clock between two steps, ms. */
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

  /** Connections that have moved so far. */
  moved = 0;
  readonly random: SeededRandom;
  readonly holdUps: number;
  readonly pollChance: number;
  readonly strayRings: number;
  readonly ownSockets: boolean;
  readonly words: Int32Array;
  readonly bells: LateBells;
  readonly surroundings: Surroundings = { nowMs: () => this.nowMs, isHeldUp: () => this.heldUp() };

  /** The port of the http thread, and what has its loop take a turn soon. */
  readonly http: { readonly core: AcceptorCore; wake: () => void } | undefined;

  /** For each host with acceptors. */
  readonly loops: AcceptorLoop[] = [];
  readonly #firstJobId: number;
  readonly slowLog: number;
  readonly longHoldUps: number;
  logThread: Thread | undefined;
  /** The thread whose step this is, and those that were held up in their last. */
  running: Thread | undefined;
  readonly heldUpThreads = new Set<Thread>();
  readonly ownLog: OwnLog = { log: undefined };
  /** Turns that shards have had a log of their own thread take, since a step of the server. */
  roomSteps = 0;
  nextAcceptor = 0;
  /** Acceptors that have been told to stop and have not begun to. */
  readonly toStop = new Set<number>();

  constructor(options: InProcessOptions) {
    const { shards, acceptors, jobBytesMax = 65535, ringBytes = RING_BYTES, compat = "default" } = options;
    this.random = options.random;
    this.holdUps = options.holdUps ?? 0;
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
    this.slowLog = options.slowLog ?? 0;
    this.dueInTurn = options.dueInTurn ?? 0;
    this.longHoldUps = options.longHoldUps ?? 0;
    this.#firstJobId = options.firstJobId ?? 1;
    new JobIds(new Int32Array(this.topology.control), ControlWord.JobIds).reset(this.#firstJobId);
    this.words = new Int32Array(this.topology.doorbells);
    this.pollChance = options.pollChance ?? 0;
    this.strayRings = options.strayRings === true ? STRAY_RINGS : 0;
    this.ownSockets = options.ownSockets === true;
    const { lateRings = 0 } = options;
    this.bells = new LateBells(this.words, () => lateRings > 0 && this.random.chance(lateRings));
    const facts = processFacts(compat, this.nowMs);
    this.logClock = this.log?.opened.startClock(() => this.log!.wallOffsetMs, this.nowMs);
    this.records = this.log === undefined ? [] : this.#createRecords();
    this.shards = Array.from(
      { length: shards },
      (_, shard) =>
        new ShardCore({
          topology: this.topology,
          shard,
          quoteNames: compat === "1.13",
          clock: () => this.#clockInTurn(shard),
          wallOffsetMs: () => this.log?.wallOffsetMs ?? 0,
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
    this.sockets = this.acceptors.map(() => []);
    this.everySocket = this.acceptors.map(() => []);
  }

  /** Returns the connection that lands after its way between two acceptors. */
  onTheWay(moved: MovedConnection): MovedConnection | undefined {
    return moved;
  }

  get storage(): Storage | undefined {
    return this.log?.opened.storage;
  }

  #createRecords(): RecordLog[] {
    return Array.from(
      { length: this.topology.shards },
      (_, shard) => new RecordLog(this.topology, shard, this.#recordRoom(shard)),
    );
  }

  #recordRoom(shard: number): RecordRoom {
    const thread = threadOfShard(this.topology, shard);
    const doorbell = this.createOwner(this.words, thread);
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
    if (this.storage!.room.waiting) this.nowMs = Math.max(this.nowMs, this.storage!.nextDeadline());
    const before = this.roomSteps++;
    assert.ok(before < ROOM_STEPS_MAX, "the log makes room while a shard waits for it");
    turnLog(this.ownLog, doorbell, this.nowMs);
    this.inRecordWait = false;
  }

  /**
   * Only the log's thread runs while a shard sleeps in the middle of a command: its engine is in
   * the middle of a call.
   */
  #sleepForRoom(doorbell: DoorbellOwner, thread: number): void {
    const log = this.logThread!;
    this.inRecordWait = true;
    this.fallAsleep(doorbell);
    this.bells.ringAll();
    for (let steps = 0; !this.isRung(thread); steps++, this.bells.ringAll()) {
      assert.ok(steps < ROOM_STEPS_MAX, "the log makes room while a shard waits for it");
      if (this.logEnd !== undefined) throw new LogIsGone("a shard waits for a log that has ended");
      // Nothing else happens until it tries again to write.
      if (this.storage!.room.waiting) this.nowMs = Math.max(this.nowMs, this.storage!.nextDeadline());
      assert.ok(
        log.ready === undefined || log.ready(),
        "the log rings a shard that waits for room when it has made some",
      );
      log.ready = log.steps.next().value;
    }
    doorbell.cancel();
    this.inRecordWait = false;
  }

  firstJobId(opened: OpenedBinlog): number {
    return Math.max(opened.nextId, this.#firstJobId);
  }

  /**
   * A disk can't fail or lose power while an engine waits in the middle of a call: the model could
   * not follow it.
   */
  get sheltered(): boolean {
    return this.inRecordWait;
  }

  /** Returns whether the thread is held up here. */
  heldUp(): boolean {
    const isHeldUp = this.holdUps > 0 && this.random.chance(this.holdUps);
    if (isHeldUp && this.running !== undefined) this.heldUpThreads.add(this.running);
    return isHeldUp;
  }

  isRung(thread: number): boolean {
    return this.words[thread * DOORBELL_WORDS] === 0;
  }

  /** A thread's own doorbell. */
  createOwner(words: Int32Array, thread: number): DoorbellOwner {
    return new DoorbellOwner(words, thread);
  }

  /** The bell of thread `to`, rung by `from`. */
  createBell(_from: number, to: number): Doorbell {
    return this.bells.bell(to);
  }

  createBells(from: number, count: number, thread: (each: number) => number): Doorbell[] {
    return Array.from({ length: count }, (_, each) => this.createBell(from, thread(each)));
  }

  /** The thread has announced its sleep, and looked once more. */
  fallAsleep(_owner: DoorbellOwner): void {}

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

  /**
   * The clock as a shard reads it in the middle of a turn: what was not due at its beginning may be
   * due now.
   */
  #clockInTurn(shard: number): number {
    if (this.dueInTurn === 0) return this.nowMs;
    // Nothing is due while the shards are being made.
    const dueMs = this.shards?.[shard]?.nextDueAtMs ?? Number.POSITIVE_INFINITY;
    const isSoon = dueMs > this.nowMs && dueMs <= this.nowMs + TURN_MS;
    if (isSoon && this.random.chance(this.dueInTurn)) this.nowMs = dueMs;
    return this.nowMs;
  }
}
