// A whole server without threads, sockets and clock: the cores of src/ over real rings, scheduled by one random source.
//
// Every thread is a generator that does what its thread.ts does and yields wherever a real thread may be held up, above
// all between the steps of a publication, of a ring of the doorbell and of falling asleep. Which one goes on is drawn.
// A thread that sleeps goes on only when its doorbell is rung or its time has come: a lost wake-up stays visible.

import assert from "node:assert/strict";
import { AcceptorCore } from "../../src/acceptor/acceptor-core.ts";
import { type ProcessFacts, statsText } from "../../src/acceptor/stats-text.ts";
import { BinlogCore } from "../../src/binlog/binlog-core.ts";
import type { Disk } from "../../src/binlog/disk/disk.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import type { OpenedBinlog } from "../../src/binlog/open-binlog.ts";
import type { RecoveredBatch } from "../../src/binlog/recovery/recovered-jobs.ts";
import type { BodyArena } from "../../src/engine/body-arena.ts";
import { rowOf } from "../../src/engine/job-table.ts";
import {
  acceptorThread,
  binlogThread,
  ControlWord,
  Counter,
  countersOf,
  createTopology,
  shardThread,
  type Topology,
  type TopologyOptions,
} from "../../src/message/topology.ts";
import { ControlWords } from "../../src/ring/control-words.ts";
import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../src/ring/doorbell.ts";
import { FileTable } from "../../src/ring/file-table.ts";
import { JobDirectory } from "../../src/ring/job-directory.ts";
import { JobIds } from "../../src/ring/job-ids.ts";
import type { LogWord } from "../../src/ring/log-words.ts";
import { createRing } from "../../src/ring/ring-layout.ts";
import { RecordLog } from "../../src/shard/record-log.ts";
import { Restore } from "../../src/shard/restore.ts";
import { ShardCore } from "../../src/shard/shard-core.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import { FakeSocket } from "./fake-socket.ts";

export interface InProcessOptions {
  shards: number;
  acceptors: number;
  random: SeededRandom;
  jobBytesMax?: number;
  /** Capacity of each ring. */
  ringBytes?: number;
  /** How likely a thread is held up at each place where it can be; 0 lets every thread run as long as it has work. */
  holdUps?: number;
  compat?: "default" | "1.12" | "1.13";
  firstJobId?: number;
  arena?: (shard: number) => BodyArena;
  /** Jobs that a kick or the end of a connection moves in one turn of a shard. */
  turnJobsMax?: number;
  /** Things that are due and happen in one turn of a shard. */
  turnDueMax?: number;
  /** How far the clock moves between two steps, ms at most. */
  tickMs?: number;
  /** How likely the log's thread is passed over while another can go on. */
  slowLog?: number;
  /** When the monotonic clock begins, ms. */
  startsAtMs?: number;
  log?: InProcessLog;
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

/** Turns without an answer before an acceptor sleeps although commands are under way: few, so that it sleeps often. */
const EMPTY_TURNS_MAX = 2;
const RING_BYTES = 1 << 16;
/** Without rest after so many steps something runs in a circle. */
const SETTLE_STEPS_MAX = 200_000;

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
  halted = false;
  /** Steps taken so far. */
  stepsTaken = 0;
  readonly sockets: FakeSocket[][];
  /** All that ever connected to each acceptor. */
  readonly everySocket: readonly FakeSocket[][];
  readonly #random: SeededRandom;
  readonly #holdUps: number;
  readonly #words: Int32Array;
  readonly #threads: Thread[];
  readonly #firstJobId: number;
  readonly #slowLog: number;
  #logThread: Thread | undefined;
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
    this.topology = topologyFor({ shards, acceptors, jobBytesMax, ringBytes }, this.log);
    this.#slowLog = options.slowLog ?? 0;
    this.#firstJobId = options.firstJobId ?? 1;
    new JobIds(new Int32Array(this.topology.control), ControlWord.JobIds).reset(this.#firstJobId);
    this.#words = new Int32Array(this.topology.doorbells);
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
          ...(this.log === undefined ? {} : { records: this.records[shard]! }),
          ...(options.arena === undefined ? {} : { arena: options.arena(shard) }),
          ...(options.turnJobsMax === undefined ? {} : { turnJobsMax: options.turnJobsMax }),
          ...(options.turnDueMax === undefined ? {} : { turnDueMax: options.turnDueMax }),
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
    this.sockets = this.acceptors.map(() => []);
    this.everySocket = this.acceptors.map(() => []);
    this.#threads = [
      ...this.shards.map((core, shard) => this.#thread(`shard ${shard}`, this.#shardSteps(core, shard))),
      ...this.acceptors.map((core, acceptor) =>
        this.#thread(`acceptor ${acceptor}`, this.#acceptorSteps(core, acceptor)),
      ),
    ];
    if (this.binlog !== undefined) this.#threads.push(this.#binlogThread());
  }

  // --- the log ----------------------------------------------------------------------------------------------------

  get storage(): Storage | undefined {
    return this.log?.opened.storage;
  }

  #binlogThread(): Thread {
    this.#logThread = this.#thread("binlog", this.#binlogSteps(this.binlog!, this.storage!));
    return this.#logThread;
  }

  #createRecords(log: InProcessLog): RecordLog[] {
    const control = new ControlWords(this.topology.control);
    const counters = countersOf(this.topology, binlogThread(this.topology));
    return Array.from(
      { length: this.topology.shards },
      (_, shard) =>
        new RecordLog({
          binlog: this.topology.binlog!,
          shard,
          isFull: () => control.isSet(ControlWord.BinlogFull),
          isWaiting: () => control.isSet(ControlWord.BinlogWaits),
          wallOffsetMs: () => log.wallOffsetMs,
          waitForRoom: (records) => this.#waitForRecordRoom(records),
          currentFile: () => counters[Counter.BinlogCurrent]!,
        }),
    );
  }

  /** As src/shard/thread.ts, but that only the log's thread runs meanwhile: the engine is in the middle of a call. */
  #waitForRecordRoom(records: RecordLog): void {
    const { ring } = records;
    if (records.publish()) this.ring(new Doorbell(this.#words, binlogThread(this.topology)));
    ring.wantRoom();
    const thread = this.#logThread!;
    this.inRecordWait = true;
    while (!ring.hasRoom(ring.messageBytesMax)) {
      if (this.logEnd !== undefined) throw new LogIsGone("a shard waits for a log that has ended");
      // Nothing else happens until it tries again to write.
      if (this.storage!.waiting) this.nowMs = Math.max(this.nowMs, this.storage!.nextDeadline());
      assert.ok(
        thread.ready === undefined || thread.ready(),
        "the log makes room while a shard waits for it",
      );
      thread.ready = thread.steps.next().value;
    }
    this.inRecordWait = false;
  }

  /** Brings the log's jobs into their shards, before the first step; `onBatch` sees them as they lie in the log. */
  restore(onBatch: (batch: RecoveredBatch) => void = () => {}): void {
    const { topology } = this;
    const { opened, wallOffsetMs } = this.log!;
    new JobIds(new Int32Array(topology.control), ControlWord.JobIds).reset(this.firstJobId(opened));
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const files = new FileTable(topology.binlog!.files);
    const restores = this.shards.map(
      ({ engine }, shard) =>
        new Restore(engine, wallOffsetMs, this.nowMs, (id) => {
          directory?.set(id, shard);
          return files.find(id);
        }),
    );
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

  /** Has the log made durable and closed, after the acceptors have stopped; `logEnd` tells when it is. */
  stopLog(): void {
    new ControlWords(this.topology.control).set(ControlWord.BinlogStop);
    this.ring(new Doorbell(this.#words, binlogThread(this.topology)));
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

  /** A disk can't fail or lose power while an engine waits in the middle of a call: the model could not follow it. */
  get sheltered(): boolean {
    return this.inRecordWait;
  }

  /** Whether clients are refused new jobs because the log has no room. */
  get isFull(): boolean {
    return new ControlWords(this.topology.control).isSet(ControlWord.BinlogFull);
  }

  /** As src/binlog/thread.ts. */
  *#binlogSteps(core: BinlogCore, storage: Storage): ThreadSteps {
    const thread = binlogThread(this.topology);
    const owner = new DoorbellOwner(this.#words, thread);
    const shards = this.shards.map((_, shard) => new Doorbell(this.#words, shardThread(shard)));
    const acceptors = this.acceptors.map(
      (_, acceptor) => new Doorbell(this.#words, acceptorThread(this.topology, acceptor)),
    );
    for (;;) {
      const { stopping } = core;
      const taken = core.takeRecords(storage, (shard) => this.ring(shards[shard]!));
      if (this.#heldUp()) yield undefined;
      storage.flush(this.nowMs);
      if (this.#heldUp()) yield undefined;
      if (storage.failure !== undefined) yield* this.#endLog("failed");
      if (core.publishProgress(storage)) {
        if (this.#heldUp()) yield undefined;
        this.ringDurable(acceptors);
      }
      if (this.#heldUp()) yield undefined;
      const more = !stopping && storage.work(this.nowMs);
      if (storage.failure !== undefined) yield* this.#endLog("failed");
      if (this.#heldUp()) yield undefined;
      if (core.publishProgress(storage)) {
        if (this.#heldUp()) yield undefined;
        this.ringDurable(acceptors);
      }
      if (core.publishState(storage)) for (const shard of shards) this.ring(shard);
      if (taken > 0 || more) {
        yield undefined;
        continue;
      }
      if (stopping && storage.waiting) {
        storage.endWait(this.nowMs);
        if (storage.failure !== undefined) yield* this.#endLog("failed");
        yield undefined;
        continue;
      }
      if (stopping) {
        storage.close(this.nowMs);
        yield* this.#endLog(storage.failure === undefined ? "closed" : "failed");
      }
      this.announceSleep(owner);
      if (this.#heldUp()) yield undefined;
      const wakeAtMs = storage.nextDeadline();
      if ((core.hasRecords && !storage.waiting) || core.stopping || wakeAtMs <= this.nowMs) {
        owner.cancel();
        yield undefined;
      } else {
        if (this.#heldUp()) yield undefined;
        this.fallAsleep(owner);
        yield () => this.#isRung(thread) || this.nowMs >= wakeAtMs;
        owner.cancel();
      }
    }
  }

  *#endLog(how: "failed" | "closed"): ThreadSteps {
    this.logEnd = how;
    for (;;) yield () => false;
  }

  protected ringDurable(acceptors: readonly Doorbell[]): void {
    for (const bell of acceptors) this.ring(bell);
  }

  #thread(name: string, steps: ThreadSteps): Thread {
    return { name, steps, ready: undefined };
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
    const socket = new FakeSocket(this.acceptors[acceptor]!);
    socket.open();
    this.sockets[acceptor]!.push(socket);
    this.everySocket[acceptor]!.push(socket);
    return socket;
  }

  // --- the threads ------------------------------------------------------------------------------------------------

  /** Whether the thread is held up here. */
  #heldUp(): boolean {
    return this.#holdUps > 0 && this.#random.chance(this.#holdUps);
  }

  #isRung(thread: number): boolean {
    return this.#words[thread * DOORBELL_WORDS] === 0;
  }

  /** A thread is about to sleep, and looks for work once more after this. */
  protected announceSleep(owner: DoorbellOwner): void {
    owner.prepare();
  }

  /** The thread has found nothing. */
  protected fallAsleep(_owner: DoorbellOwner): void {}

  protected ring(bell: Doorbell): void {
    bell.ring();
  }

  /** As src/shard/thread.ts. */
  *#shardSteps(core: ShardCore, shard: number): ThreadSteps {
    const records = this.records[shard];
    const binlog = new Doorbell(this.#words, binlogThread(this.topology));
    const thread = shardThread(shard);
    const owner = new DoorbellOwner(this.#words, thread);
    const bells = this.acceptors.map(
      (_, acceptor) => new Doorbell(this.#words, acceptorThread(this.topology, acceptor)),
    );
    for (;;) {
      const taken = core.step(this.nowMs);
      if (this.#heldUp()) yield undefined;
      const shownRecord = records?.shownNumber ?? 0;
      for (let acceptor = 0; acceptor < bells.length; acceptor++) {
        const waits = core.requests[acceptor]!.release();
        if (this.#heldUp()) yield undefined;
        const answered = core.ports[acceptor]!.publish(shownRecord);
        if (!waits && !answered) continue;
        if (this.#heldUp()) yield undefined;
        this.ring(bells[acceptor]!);
      }
      if (this.#heldUp()) yield undefined;
      if (records?.publish() === true) {
        if (this.#heldUp()) yield undefined;
        this.ring(binlog);
      }
      if (taken > 0 || core.hasWork) {
        yield undefined;
        continue;
      }
      this.announceSleep(owner);
      if (this.#heldUp()) yield undefined;
      core.wantRoom();
      if (this.#heldUp()) yield undefined;
      const wakeAtMs = core.engine.nextDueAtMs;
      if (core.hasWork || wakeAtMs <= this.nowMs) {
        owner.cancel();
        yield undefined;
      } else {
        if (this.#heldUp()) yield undefined;
        this.fallAsleep(owner);
        yield () => this.#isRung(thread) || this.nowMs >= wakeAtMs;
        owner.cancel();
      }
    }
  }

  /** As src/acceptor/thread.ts, with an event loop of its own. */
  *#acceptorSteps(core: AcceptorCore, acceptor: number): ThreadSteps {
    const thread = acceptorThread(this.topology, acceptor);
    const owner = new DoorbellOwner(this.#words, thread);
    const bells = this.shards.map((_, shard) => new Doorbell(this.#words, shardThread(shard)));
    const toRing: number[] = [];
    const ringLater = (shard: number): void => void toRing.push(shard);
    const ring = (): void => {
      for (let shard = toRing.shift(); shard !== undefined; shard = toRing.shift()) this.ring(bells[shard]!);
    };
    let scheduled = true;
    let asleep = false;
    let emptyTurns = 0;
    const wake = (): void => {
      emptyTurns = 0;
      if (asleep) {
        asleep = false;
        owner.cancel();
      }
      scheduled = true;
    };
    for (;;) {
      yield () => scheduled || this.#hasSocketEvent(acceptor) || (asleep && this.#isRung(thread));
      if (asleep && this.#isRung(thread)) wake();
      while (this.#hasSocketEvent(acceptor) && !(scheduled && this.#heldUp())) {
        this.#handleSocketEvent(acceptor);
        wake();
      }
      if (!this.#hasSocketEvent(acceptor)) core.haveRead();
      if (!scheduled) continue;
      scheduled = false;
      core.publish(ringLater);
      if (this.#heldUp()) yield undefined;
      ring();
      const taken = core.takeAnswers(ringLater);
      if (this.#heldUp()) yield undefined;
      ring();
      core.flush();
      core.publish(ringLater);
      if (this.#heldUp()) yield undefined;
      ring();
      if (taken > 0) emptyTurns = 0;
      if (core.hasWork) {
        scheduled = true;
        continue;
      }
      if (core.expecting > 0 && emptyTurns++ < EMPTY_TURNS_MAX) {
        scheduled = true;
        if (emptyTurns === 1) continue;
        this.announceSleep(owner);
        if (this.#heldUp()) yield undefined;
        // It blocks for an answer, but not for long: it may go on at any time.
        if (!core.hasAnswers) yield undefined;
        owner.cancel();
        continue;
      }
      core.stopExpecting();
      this.announceSleep(owner);
      asleep = true;
      if (this.#heldUp()) yield undefined;
      core.wantRoom();
      if (this.#heldUp()) yield undefined;
      if (core.hasAnswers || core.hasDurable || core.hasRoomAgain) {
        wake();
        continue;
      }
      if (this.#heldUp()) yield undefined;
      this.fallAsleep(owner);
    }
  }

  #hasSocketEvent(acceptor: number): boolean {
    return this.#toStop.has(acceptor) || this.sockets[acceptor]!.some((socket) => socket.hasEvent);
  }

  #handleSocketEvent(acceptor: number): void {
    if (this.#toStop.delete(acceptor)) {
      this.acceptors[acceptor]!.endAll();
      return;
    }
    const sockets = this.sockets[acceptor]!;
    const ready = sockets.filter((socket) => socket.hasEvent);
    const socket = this.#random.pick(ready)!;
    socket.handleEvent(this.#holdUps > 0 && this.#random.chance(0.3) ? this.#random.between(1, 40) : 65536);
    if (socket.isClosed) sockets.splice(sockets.indexOf(socket), 1);
  }

  // --- time and order ---------------------------------------------------------------------------------------------

  /** Lets one thread go on, drawn from those that can; false if all sleep. */
  step(): boolean {
    if (this.halted) return false;
    const ready = this.#threads.filter((thread) => thread.ready === undefined || thread.ready());
    let thread = this.#random.pick(ready);
    if (thread === undefined) return false;
    if (thread === this.#logThread && ready.length > 1 && this.#random.chance(this.#slowLog))
      thread = ready.find((each) => each !== thread)!;
    this.stepsTaken++;
    if (this.tickMs > 0) this.nowMs += this.#random.next() * this.tickMs;
    thread.ready = thread.steps.next().value;
    return true;
  }

  /** Steps until every thread sleeps, no socket has anything for the server, and the log waits for no room. */
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
    for (let dueMs = this.nextDueAtMs; dueMs <= untilMs; dueMs = this.nextDueAtMs) {
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
  const { repliesWaitFor, recordRingBytes } = log;
  const topology = createTopology({ ...options, binlog: { repliesWaitFor, segmentBytes: 0 } });
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
