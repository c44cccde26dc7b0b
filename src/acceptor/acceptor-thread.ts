// The thread of one or more acceptors: feeds bytes from sockets to their cores, runs their loop and
// sleeps when the loop does.

import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { type ColocatedRole, Point, REAL_THREAD, type ResidentShard } from "../loop/role.ts";
import { AcceptorPollPolicy, EVENT_LOOP_SLEEP_MS_MAX, type WaitSettings } from "../loop/waiting-policy.ts";
import { Counter, threadOfShard } from "../message/topology.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import {
  Acceptor,
  type AcceptorNews,
  type AcceptorPort,
  type AcceptorSettings,
  type AcceptorSurroundings,
  type TransportKind,
} from "./acceptor.ts";
import { AcceptorLoop, acceptorGroup } from "./acceptor-loop.ts";
import type { AcceptorCore } from "./connection/acceptor-core.ts";
import type { MovedConnection } from "./migration/client-state.ts";
import type { ConnectionContext, ConnectionLog } from "./sockets/listener.ts";
import { NetTransport } from "./sockets/net-transport.ts";
import type { UringSockets } from "./sockets/uring-sockets.ts";

export interface AcceptorThreadData extends AcceptorSettings {
  /** Index in the topology's threads. */
  thread: number;
  /** The port to the main thread of each acceptor. */
  ports: AcceptorPort[];
  /**
   * The mechanism that moves connections' bytes; "auto" is io_uring if it is permitted, otherwise
   * libuv.
   */
  transport: TransportKind | "auto";
  waiting: WaitSettings;
}

/**
 * With io_uring, the event loop gets its turn after this many sleeps or this many ms at the latest.
 */
const ROUNDS_MAX = 64;
const ROUNDS_MS_MAX = 5;
const ROUNDS_FOR_LIBUV = 3;
/** Node accepts no timer longer than 2^31 - 1 ms. */
const TIMER_MS_MAX = 3_600_000;
const READ_BUFFER_BYTES = 256 * 1024;

export class AcceptorThread implements AcceptorSurroundings {
  readonly #data: AcceptorThreadData;
  readonly #acceptors: readonly Acceptor[];
  readonly #doorbell: DoorbellOwner;
  readonly #loop: AcceptorLoop;
  /** The counters of the first acceptor, which also count for the thread as a whole. */
  readonly #counters: Float64Array;
  readonly #readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);
  /** Set if io_uring moves the bytes instead of the event loop. */
  #uring: UringSockets | undefined;
  #scheduled = false;
  /** Rounds of the event loop before the thread may sleep in the ring: see `wakeForLibuv`. */
  #loopRounds = 0;
  #hasLibuv = false;
  #timer: NodeJS.Timeout | undefined;
  /** The acceptor that listens on each shared descriptor. */
  readonly #listeners = new Map<number, Acceptor>();

  constructor(data: AcceptorThreadData) {
    this.#data = data;
    const { topology, thread, ports } = data;
    const { acceptors, shards } = topology.threads[thread]!;
    this.#acceptors = acceptors.map((acceptor, index) => new Acceptor(data, acceptor, ports[index]!, this));
    const cores = this.#acceptors.map(({ core }) => core);
    this.#counters = cores[0]!.counters;
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, thread);
    const hasOwnShards = shards.length === topology.shards;
    this.#loop = new AcceptorLoop({
      core: acceptorGroup(cores),
      doorbell: this.#doorbell,
      shards: cores[0]!.links.requests.map((_, shard) => new Doorbell(words, threadOfShard(topology, shard))),
      counters: new TurnCounters(
        cores[0]!.counters,
        cores.flatMap(({ links }) => links.responses),
      ),
      pollPolicy: new AcceptorPollPolicy(data.waiting, monotonicMs, hasOwnShards),
      surroundings: REAL_THREAD,
    });
    void this.#open();
  }

  /** Adds a shard of this thread that is ready to serve. */
  addResident(role: ResidentShard, shard: number, arena: BodyArena): void {
    for (const { core } of this.#acceptors) core.arenas[shard] = arena;
    this.#loop.residents.push(role);
    this.wake();
  }

  /** Adds this thread's log, which must be open. */
  addLog(log: ColocatedRole): void {
    this.#loop.log = log;
    this.wake();
  }

  async #open(): Promise<void> {
    const { transport } = this.#data;
    if (transport === "libuv") {
      this.#noteLateEnds();
      this.#tell({ news: "ready", transport });
      return;
    }
    try {
      const { UringSockets } = await import("./sockets/uring-sockets.ts");
      const uring = new UringSockets(
        this.#acceptors.map(({ core }) => core),
        this.wake,
      );
      // A kernel may grant a ring and still refuse its use.
      uring.turn();
      this.#uring = uring;
      this.#loop.sockets = uring;
      this.#ringThroughUrings(uring);
      this.#beginMigration();
      this.#tell({ news: "ready", transport: "io_uring" });
    } catch (error) {
      const { message } = error as Error;
      if (transport === "io_uring") this.#tell({ news: "failed", code: "IO_URING", message });
      else {
        this.#noteLateEnds();
        this.#tell({ news: "ready", transport: "libuv", refusal: message });
      }
    }
  }

  #noteLateEnds(): void {
    for (const { core } of this.#acceptors) core.counters[Counter.ReadsEndsLate] = 1;
  }

  /** Makes threads that sleep in io_urings wake each other through those. */
  #ringThroughUrings(uring: UringSockets): void {
    this.#doorbell.sleepsInUring(uring.ring.descriptor);
    Doorbell.wakeInUring = (descriptor, word) => uring.ringIn(descriptor, word);
    const words = new Int32Array(this.#data.topology.doorbells);
    uring.onNotRung = (word) => Doorbell.notify(words, word);
  }

  #beginMigration(): void {
    const { topology, thread } = this.#data;
    if (topology.migrationRings.length === 0) return;
    for (const [index, acceptor] of topology.threads[thread]!.acceptors.entries())
      this.#acceptors[index]!.beginMigration(acceptor, topology);
  }

  /** Reports news about the thread for each of its acceptors. */
  #tell(news: AcceptorNews): void {
    for (const acceptor of this.#acceptors) acceptor.tell(news);
  }

  listenerOf(fd: number, acceptor: Acceptor): Acceptor {
    const listener = this.#listeners.get(fd) ?? acceptor;
    this.#listeners.set(fd, listener);
    return listener;
  }

  land(moved: MovedConnection, core: AcceptorCore, log: ConnectionLog): void {
    this.#uring!.land(moved, core, log);
  }

  serve(client: unknown, context: ConnectionContext): void {
    if (this.#uring !== undefined) this.#uring.serve(client, context);
    else NetTransport.serve(client, context, this.#readBuffer);
  }

  // --- turns -------------------------------------------------------------------------------------

  /** Schedules a turn after the event loop has read all ready sockets. */
  readonly wake = (): void => {
    this.#loop.wake();
    if (!this.#scheduled) this.#schedule();
  };

  #schedule(): void {
    this.#scheduled = true;
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    this.#scheduled = false;
    if (this.#uring !== undefined) {
      this.#turnAndWait(this.#uring);
      return;
    }
    // The event loop reads its sockets between two of these turns.
    for (const { core } of this.#acceptors) if (core.barriers.hasWork) core.barriers.haveRead();
    if (this.#loop.next() === Point.Turned) this.#schedule();
    else if (!this.#doorbell.wakeOnBell(this.wake)) this.wake();
    else if (this.#loop.wakeAtMs !== Number.POSITIVE_INFINITY) this.#wakeLater(this.#loop.wakeAtMs);
  };

  /**
   * Takes turns, and waits in the kernel for the sockets and for the event loop. The event loop is
   * skipped while it has no work: a round of it between two turns costs a fifth of a command.
   */
  #turnAndWait(uring: UringSockets): void {
    // Socket events during this call need not schedule a turn.
    this.#scheduled = true;
    if (this.#loopRounds > 0) {
      this.#loopRounds--;
      this.#loop.next();
      this.#loop.wake();
      setImmediate(this.#turn);
      return;
    }
    const untilMs = monotonicMs() + ROUNDS_MS_MAX;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      if (this.#loop.next() === Point.Turned) {
        if (uring.eventLoopIsReady || monotonicMs() >= untilMs) break;
        continue;
      }
      if (!this.#doorbell.wakeOnBell(this.wake)) {
        this.#loop.wake();
        break;
      }
      const isEventLoopsTurn = this.#sleep(uring);
      this.#loop.wake();
      if (isEventLoopsTurn || monotonicMs() >= untilMs) break;
    }
    if (this.#hasLibuv && uring.eventLoopIsReady) this.#loopRounds = ROUNDS_FOR_LIBUV;
    setImmediate(this.#turn);
  }

  /**
   * Sleeps in the ring. Returns whether to leave for the event loop: nothing ended the sleep, or it
   * has work. A thread that was rung has work that a round of the event loop would only delay.
   * Other threads may read how long it slept: see ThreadLoads.
   */
  #sleep(uring: UringSockets): boolean {
    const sinceMs = monotonicMs();
    const counters = this.#counters;
    counters[Counter.IdleSinceMs] = sinceMs;
    const sleepMs = Math.min(this.#loop.wakeAtMs - sinceMs, EVENT_LOOP_SLEEP_MS_MAX);
    uring.wait(Math.max(0, sleepMs));
    const wasRung = this.#doorbell.isRung;
    counters[Counter.IdleSinceMs] = 0;
    counters[Counter.IdleMs] = counters[Counter.IdleMs]! + monotonicMs() - sinceMs;
    const completions = uring.takeCompletions();
    return completions === 0 || (uring.eventLoopIsReady && !wasRung);
  }

  /**
   * Schedules a turn and some rounds of the event loop. Sockets of libuv, such as those with TLS,
   * leave work for later rounds that no descriptor announces, so the thread must not sleep in the
   * ring until they are over.
   */
  readonly wakeForLibuv = (): void => {
    this.#hasLibuv = true;
    this.#loopRounds = ROUNDS_FOR_LIBUV;
    this.wake();
  };

  /** Sets a timer for a resident's due work. A later sleep replaces it. */
  #wakeLater(atMs: number): void {
    clearTimeout(this.#timer);
    const ms = Math.min(Math.ceil(atMs - monotonicMs()), TIMER_MS_MAX);
    this.#timer = setTimeout(this.wake, Math.max(1, ms));
  }
}
