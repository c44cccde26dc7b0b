// A whole server without threads, sockets and clock: the cores of src/ over real rings, scheduled by one random source.
//
// Every thread is a generator that does what its thread.ts does and yields wherever a real thread may be held up, above
// all between the steps of a publication, of a ring of the doorbell and of falling asleep. Which one goes on is drawn.
// A thread that sleeps goes on only when its doorbell is rung or its time has come: a lost wake-up stays visible.

import assert from "node:assert/strict";
import { AcceptorCore } from "../../src/acceptor/acceptor-core.ts";
import { type ProcessFacts, statsText } from "../../src/acceptor/stats-text.ts";
import type { BodyArena } from "../../src/engine/body-arena.ts";
import {
  acceptorThread,
  ControlWord,
  createTopology,
  shardThread,
  type Topology,
} from "../../src/message/topology.ts";
import { ControlWords } from "../../src/ring/control-words.ts";
import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../src/ring/doorbell.ts";
import { JobIds } from "../../src/ring/job-ids.ts";
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
  /** How far the clock moves between two steps, ms at most. */
  tickMs?: number;
}

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
  nowMs = 1_000_000;
  /** How far the clock moves between two steps, ms at most. */
  tickMs: number;
  /** Steps taken so far. */
  stepsTaken = 0;
  readonly sockets: FakeSocket[][];
  readonly #random: SeededRandom;
  readonly #holdUps: number;
  readonly #words: Int32Array;
  readonly #threads: Thread[];
  #nextAcceptor = 0;
  /** Acceptors that have been told to stop and have not begun to. */
  readonly #toStop = new Set<number>();

  constructor(options: InProcessOptions) {
    const { shards, acceptors, jobBytesMax = 65535, ringBytes = RING_BYTES, compat = "default" } = options;
    this.#random = options.random;
    this.#holdUps = options.holdUps ?? 0;
    this.tickMs = options.tickMs ?? 0;
    this.topology = createTopology({ shards, acceptors, jobBytesMax, ringBytes });
    new JobIds(new Int32Array(this.topology.control), ControlWord.JobIds).reset(options.firstJobId ?? 1);
    this.#words = new Int32Array(this.topology.doorbells);
    const facts = processFacts(compat, this.nowMs);
    this.shards = Array.from(
      { length: shards },
      (_, shard) =>
        new ShardCore({
          topology: this.topology,
          shard,
          quoteNames: compat === "1.13",
          ...(options.arena === undefined ? {} : { arena: options.arena(shard) }),
          ...(options.turnJobsMax === undefined ? {} : { turnJobsMax: options.turnJobsMax }),
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
    this.#threads = [
      ...this.shards.map((core, shard) => this.#thread(`shard ${shard}`, this.#shardSteps(core, shard))),
      ...this.acceptors.map((core, acceptor) =>
        this.#thread(`acceptor ${acceptor}`, this.#acceptorSteps(core, acceptor)),
      ),
    ];
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
    const thread = shardThread(shard);
    const owner = new DoorbellOwner(this.#words, thread);
    const bells = this.acceptors.map(
      (_, acceptor) => new Doorbell(this.#words, acceptorThread(this.topology, acceptor)),
    );
    for (;;) {
      const taken = core.step(this.nowMs);
      if (this.#heldUp()) yield undefined;
      for (let acceptor = 0; acceptor < bells.length; acceptor++) {
        core.requests[acceptor]!.release();
        if (!core.ports[acceptor]!.ring.publish()) continue;
        if (this.#heldUp()) yield undefined;
        this.ring(bells[acceptor]!);
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
      if (core.hasWork || wakeAtMs <= this.nowMs) owner.cancel();
      else {
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
      if (core.hasAnswers) {
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
    const ready = this.#threads.filter((thread) => thread.ready === undefined || thread.ready());
    const thread = this.#random.pick(ready);
    if (thread === undefined) return false;
    this.stepsTaken++;
    if (this.tickMs > 0) this.nowMs += this.#random.next() * this.tickMs;
    thread.ready = thread.steps.next().value;
    return true;
  }

  /** Steps until every thread sleeps and no socket has anything for the server. */
  settle(): void {
    for (let steps = 0; this.step(); steps++) {
      assert.ok(steps < SETTLE_STEPS_MAX, "the server comes to rest");
    }
  }

  /** When the next timer of any shard is due, or Infinity. */
  get nextDueAtMs(): number {
    return Math.min(...this.shards.map((core) => core.engine.nextDueAtMs));
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
