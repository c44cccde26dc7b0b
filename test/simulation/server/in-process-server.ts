// A whole server without threads, sockets and clock: the loops of src/ over real rings, scheduled
// by one random source.
//
// Each thread drives its loop from point to point; this file replaces only what a thread.ts does at
// these points. The random source decides whether a loop yields where a real thread may lose its
// core (within a publication, a ring of the doorbell, or falling asleep), which thread goes on,
// whether it spins or looks again, and whether a ring comes late. A sleeping thread continues only
// when its doorbell rings or its time has come, so a lost wake-up stays visible.

import assert from "node:assert/strict";
import { recoveredWithFiles } from "../../../src/binlog/open-binlog.ts";
import type { RecoveredBatch } from "../../../src/binlog/recovery/recovered-jobs.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import { binlogBell, ControlWord } from "../../../src/message/topology.ts";
import { DOORBELL_WORDS, Doorbell } from "../../../src/ring/doorbell.ts";
import { ControlWords, FileTable, JobDirectory } from "../../../src/ring/shared-words.ts";
import { Restore } from "../../../src/shard/records/restore.ts";
import { AcceptorThreads } from "./acceptor-threads.ts";
import { BlockingThreads } from "./blocking-threads.ts";
import { ConnectionMoves } from "./connection-moves.ts";
import { FakeSocket } from "./fake-socket.ts";
import type { InProcessOptions, Thread, ThreadSteps } from "./in-process-options.ts";
import { ServerParts } from "./server-parts.ts";
import { SocketEvents } from "./socket-events.ts";

/** Without rest after so many steps something runs in a circle. */
const SETTLE_STEPS_MAX = 200_000;

/** Due work without a wake stays due. */
const DUE_ROUNDS_MAX = 10_000;

export class InProcessServer extends ServerParts {
  readonly events: SocketEvents = new SocketEvents(this);
  readonly blocking: BlockingThreads = new BlockingThreads(this);
  readonly serving: AcceptorThreads = new AcceptorThreads(this);
  readonly migration: ConnectionMoves = new ConnectionMoves(this);
  readonly #threads: Thread[];

  constructor(options: InProcessOptions) {
    super(options);
    const { topology } = this;
    if (topology.migrationRings.length > 0) this.migration.beginMigration(options.migrations!);
    this.#threads = [
      ...topology.threads.map((host, index) =>
        host.acceptors.length === 0
          ? this.blocking.shardThread(host.shards[0]!, index)
          : this.serving.acceptorThread(host, index),
      ),
      { name: "late rings", steps: this.#ringLate(), ready: () => this.bells.hasLate },
    ];
    if (this.http !== undefined) this.#threads.push(this.serving.httpThread(this.http));
    if (this.storage === undefined) return;
    this.binlog = this.blocking.binlogRole(this.storage);
    if (topology.binlog!.thread !== undefined) {
      this.blocking.addResidentLog(this.binlog);
      return;
    }
    const log = this.blocking.binlogThread(this.binlog);
    this.logThread = log;
    this.#threads.push(log);
  }

  /**
   * Brings the log's jobs into their shards, before the first step; `onBatch` sees them as they lie
   * in the log.
   */
  restore(onBatch: (batch: RecoveredBatch) => void = () => {}): void {
    const { topology } = this;
    const { opened } = this.log!;
    const { offsetMs } = this.logClock!;
    this.binlog!.beginIds(this.firstJobId(opened));
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const files = new FileTable(topology.binlog!.files);
    const restores = this.shards.map(
      ({ engine }, shard) =>
        new Restore(engine, offsetMs, this.nowMs, (id) => {
          directory?.set(id, shard);
          return files.find(id);
        }),
    );
    for (const { homes, tubeSetter } of this.shards) {
      tubeSetter.restore(opened.settings, this.nowMs);
      homes.restore(opened.batches, offsetMs, this.nowMs);
    }
    for (const batch of recoveredWithFiles(opened, topology)) {
      onBatch(batch);
      for (const [shard, restore] of restores.entries()) restore.load(batch.bytes, batch.jobs[shard]!);
    }
    for (const [shard, restore] of restores.entries()) {
      restore.finish();
      this.records[shard]!.attach(this.shards[shard]!.engine, restore.burySequence, offsetMs);
    }
    this.binlog!.publishProgress();
    this.binlog!.publishState();
  }

  /**
   * Has the log made durable and closed, after the acceptors have stopped; `logEnd` tells when it
   * is.
   */
  stopLog(): void {
    new ControlWords(this.topology.control).set(ControlWord.BinlogStop);
    new Doorbell(this.words, binlogBell(this.topology)).ring();
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
    for (const acceptor of this.acceptors.keys()) this.toStop.add(acceptor);
  }

  /** A new client, at the acceptors in turn unless one is named. */
  connect(acceptor: number = this.nextAcceptor++ % this.acceptors.length): FakeSocket {
    const socket = new FakeSocket(this.acceptors[acceptor]!, this.ownSockets);
    socket.open();
    this.sockets[acceptor]!.push(socket);
    this.everySocket[acceptor]!.push(socket);
    return socket;
  }

  *#ringLate(): ThreadSteps {
    for (;;) {
      this.bells.ringOne();
      yield () => this.bells.hasLate;
    }
  }

  /** Lets one thread go on, drawn from those that can; false if all sleep. */
  step(): boolean {
    if (this.halted) return false;
    const ready = this.#threads.filter((thread) => thread.ready === undefined || thread.ready());
    let thread = this.random.pick(ready);
    if (thread === undefined) return false;
    if (thread === this.logThread && ready.length > 1 && this.random.chance(this.slowLog))
      thread = ready.find((each) => each !== thread)!;
    if (this.longHoldUps > 0) thread = this.#passOver(thread, ready);
    this.running = thread;
    this.stepsTaken++;
    this.roomSteps = 0;
    if (this.tickMs > 0) this.nowMs += this.random.next() * this.tickMs;
    if (this.strayRings > 0 && this.random.chance(this.strayRings)) this.#ringForNothing();
    thread.ready = thread.steps.next().value;
    return true;
  }

  /** The thread that goes on: another where `thread` is held up for longer. */
  #passOver(thread: Thread, ready: readonly Thread[]): Thread {
    let next = thread;
    if (this.heldUpThreads.has(thread) && this.random.chance(this.longHoldUps))
      next = this.random.pick(ready.filter((each) => !this.heldUpThreads.has(each))) ?? thread;
    this.heldUpThreads.delete(next);
    return next;
  }

  #ringForNothing(): void {
    new Doorbell(this.words, this.random.between(0, this.words.length / DOORBELL_WORDS - 1)).ring();
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

  /** The next try of a log that waits for room is due: all others rest until then. */
  #logTriesAgain(): boolean {
    if (this.halted || this.logEnd !== undefined || this.storage?.room.waiting !== true) return false;
    this.nowMs = Math.max(this.nowMs, this.storage.nextDeadline());
    return true;
  }

  /** Time at which the next timer of any shard or of the log is due, or Infinity. */
  get nextDueAtMs(): number {
    const logDueAtMs = this.logEnd === undefined ? this.storage?.nextDeadline() : undefined;
    return Math.min(...this.shards.map((core) => core.nextDueAtMs), logDueAtMs ?? Number.POSITIVE_INFINITY);
  }

  /** Lets `ms` pass, stopping at everything that is due on the way. */
  advance(ms: number): void {
    this.settle();
    const untilMs = this.nowMs + ms;
    for (let rounds = 0, dueMs = this.nextDueAtMs; dueMs <= untilMs; rounds++, dueMs = this.nextDueAtMs) {
      assert.ok(rounds < DUE_ROUNDS_MAX, "all due timers have run");
      this.nowMs = Math.max(this.nowMs, dueMs);
      this.settle();
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
    this.settle();
  }
}
