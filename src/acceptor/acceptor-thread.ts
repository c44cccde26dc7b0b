// The thread of one or more acceptors: feeds sockets' bytes to their cores, runs their loop, sleeps where it does.

import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { Point, REAL_THREAD } from "../loop/point.ts";
import type { ColocatedRole, ResidentShard } from "../loop/role.ts";
import { AcceptorPatience, EVENT_LOOP_SLEEP_MS_MAX, type Waiting } from "../loop/waiting-policy.ts";
import { Counter, hostOfShard } from "../message/topology.ts";
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
import { acceptorGroup } from "./acceptor-group.ts";
import { AcceptorLoop } from "./acceptor-loop.ts";
import type { AcceptorCore } from "./connection/acceptor-core.ts";
import type { MovedConnection } from "./migration/moved-connection.ts";
import { NetTransport } from "./sockets/net-transport.ts";
import type { Serving } from "./sockets/serving.ts";
import type { UringSockets } from "./sockets/uring-sockets.ts";
import type { ConnectionLog } from "./state/connection-log.ts";

export interface AcceptorThreadData extends AcceptorSettings {
  /** Index in the topology's hosts. */
  host: number;
  /** The way to the main thread of each of its acceptors. */
  ports: AcceptorPort[];
  /** What moves the bytes of connections; "auto": io_uring where it is permitted, else libuv. */
  transport: TransportKind | "auto";
  waiting: Waiting;
}

/** With io_uring the event loop has its turn after so many sleeps, or so long, at the latest, ms. */
const ROUNDS_MAX = 64;
const ROUNDS_MS_MAX = 5;
const ROUNDS_FOR_TLS = 3;
/** Node takes no longer timer than 2^31 - 1 ms. */
const TIMER_MS_MAX = 3_600_000;
const READ_BUFFER_BYTES = 256 * 1024;

export class AcceptorThread implements AcceptorSurroundings {
  readonly #data: AcceptorThreadData;
  readonly #acceptors: readonly Acceptor[];
  readonly #doorbell: DoorbellOwner;
  readonly #loop: AcceptorLoop;
  /** Of the first of its acceptors, where what is true of the thread is counted. */
  readonly #counters: Float64Array;
  readonly #readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);
  /** Set when io_uring moves the bytes instead of the event loop. */
  #uring: UringSockets | undefined;
  #scheduled = false;
  /** The last sleep in the ring was ended by the doorbell. */
  #wasRung = false;
  /** Rounds of the event loop before the thread may sleep in the ring: see `wakeForTls`. */
  #loopRounds = 0;
  #hasTls = false;
  #waitPending = false;
  #timer: NodeJS.Timeout | undefined;
  /** By their descriptors. */
  readonly #listeners = new Map<number, Acceptor>();

  constructor(data: AcceptorThreadData) {
    this.#data = data;
    const { topology, host, ports } = data;
    const { acceptors, shards } = topology.hosts[host]!;
    this.#acceptors = acceptors.map((acceptor, index) => new Acceptor(data, acceptor, ports[index]!, this));
    const cores = this.#acceptors.map(({ core }) => core);
    this.#counters = cores[0]!.counters;
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, host);
    const hasOwnShards = shards.length === topology.shards;
    this.#loop = new AcceptorLoop({
      core: acceptorGroup(cores),
      doorbell: this.#doorbell,
      shards: cores[0]!.requests.map((_, shard) => new Doorbell(words, hostOfShard(topology, shard))),
      counters: new TurnCounters(
        cores[0]!.counters,
        cores.flatMap(({ responses }) => responses),
      ),
      patience: new AcceptorPatience(data.waiting, monotonicMs, hasOwnShards),
      surroundings: REAL_THREAD,
    });
    void this.#open();
  }

  /** A shard of this thread is ready to serve. */
  addResident(role: ResidentShard, shard: number, arena: BodyArena): void {
    for (const { core } of this.#acceptors) core.addLocalShard(shard, arena);
    this.#loop.residents.push(role);
    this.wake();
  }

  /** The log of this thread is open. */
  addLog(log: ColocatedRole): void {
    this.#loop.log = log;
    this.wake();
  }

  async #open(): Promise<void> {
    const { transport } = this.#data;
    if (transport === "libuv") {
      this.#tell({ news: "ready", transport });
      return;
    }
    try {
      const { UringSockets } = await import("./sockets/uring-sockets.ts");
      const uring = new UringSockets(
        this.#acceptors.map(({ core }) => core),
        this.wake,
      );
      // A kernel may grant a ring and refuse its use.
      uring.turn();
      this.#uring = uring;
      this.#loop.sockets = uring;
      this.#ringInRings(uring);
      this.#beginMoves();
      this.#tell({ news: "ready", transport: "io_uring" });
    } catch (error) {
      const { message } = error as Error;
      if (transport === "io_uring") this.#tell({ news: "failed", code: "IO_URING", message });
      else this.#tell({ news: "ready", transport: "libuv", refusal: message });
    }
  }

  /** Threads that sleep in rings wake each other there. */
  #ringInRings(uring: UringSockets): void {
    this.#doorbell.sleepsInRing(uring.ring.descriptor);
    Doorbell.wakeInRing = (descriptor, word) => uring.ringIn(descriptor, word);
    const words = new Int32Array(this.#data.topology.doorbells);
    uring.onNotRung = (word) => Doorbell.notify(words, word);
  }

  #beginMoves(): void {
    const { topology, host } = this.#data;
    if (topology.moves.length === 0) return;
    for (const [index, acceptor] of topology.hosts[host]!.acceptors.entries())
      this.#acceptors[index]!.beginMoves(acceptor, topology);
  }

  /** What is true of the thread is told for each of its acceptors. */
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

  serve(client: unknown, serving: Serving): void {
    if (this.#uring !== undefined) this.#uring.serve(client, serving);
    else NetTransport.serve(client, serving, this.#readBuffer);
  }

  // --- turns ------------------------------------------------------------------------------------------------------

  /** Something has come from a socket: a turn follows when the event loop has read all sockets that are ready. */
  readonly wake = (): void => {
    this.#loop.wake();
    this.#schedule();
  };

  #schedule(): void {
    if (this.#scheduled) return;
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
    for (const { core } of this.#acceptors) core.haveRead();
    if (this.#loop.next() === Point.Turned) this.#schedule();
    else if (!this.#listenToDoorbell()) this.wake();
    else if (this.#loop.wakeAtMs !== Number.POSITIVE_INFINITY) this.#wakeLater(this.#loop.wakeAtMs);
  };

  /**
   * Takes turns, and waits in the kernel for the sockets and for the event loop. As long as that has nothing to do it is
   * left out: a round of it between any two turns costs a fifth of a command.
   */
  #turnAndWait(uring: UringSockets): void {
    // What comes from the sockets meanwhile need not schedule anything.
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
      if (!this.#listenToDoorbell()) {
        this.#loop.wake();
        break;
      }
      const completions = this.#sleep(uring);
      this.#loop.wake();
      if (completions === 0 || this.#isEventLoopsTurn(uring) || monotonicMs() >= untilMs) break;
    }
    if (this.#hasTls && uring.eventLoopIsReady) this.#loopRounds = ROUNDS_FOR_TLS;
    setImmediate(this.#turn);
  }

  /** Who was rung has something to do that a round of the event loop would only delay. */
  #isEventLoopsTurn(uring: UringSockets): boolean {
    return uring.eventLoopIsReady && !this.#wasRung;
  }

  /** Returns how many completions woke it. How long it slept others may read: see HostLoads. */
  #sleep(uring: UringSockets): number {
    const sinceMs = monotonicMs();
    const counters = this.#counters;
    counters[Counter.IdleSinceMs] = sinceMs;
    const sleepMs = Math.min(this.#loop.wakeAtMs - sinceMs, EVENT_LOOP_SLEEP_MS_MAX);
    uring.wait(Math.max(0, sleepMs));
    this.#wasRung = this.#doorbell.isRung;
    counters[Counter.IdleSinceMs] = 0;
    counters[Counter.IdleMs] = counters[Counter.IdleMs]! + monotonicMs() - sinceMs;
    return uring.takeCompletions();
  }

  /**
   * TLS leaves work for later rounds of the event loop, which no descriptor tells of: where some listener has it, the
   * thread does not sleep in the ring before these are over.
   */
  readonly wakeForTls = (): void => {
    this.#hasTls = true;
    this.#loopRounds = ROUNDS_FOR_TLS;
    this.wake();
  };

  /** A ring of the doorbell shows in the event loop from now on. False if it was rung already. */
  #listenToDoorbell(): boolean {
    // An earlier wait that nobody ended still waits on the same word, and will do.
    if (this.#waitPending) return true;
    const rung = this.#doorbell.sleepAsync();
    if (rung === undefined) return false;
    this.#waitPending = true;
    rung.then(() => {
      this.#waitPending = false;
      this.wake();
    });
    return true;
  }

  /** Wakes it when a resident has something due. A later sleep sets the time anew. */
  #wakeLater(atMs: number): void {
    clearTimeout(this.#timer);
    const ms = Math.min(Math.ceil(atMs - monotonicMs()), TIMER_MS_MAX);
    this.#timer = setTimeout(this.wake, Math.max(1, ms));
  }
}
