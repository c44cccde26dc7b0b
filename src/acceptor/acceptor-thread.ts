// An acceptor in the event loop of its thread: listens, feeds sockets' bytes to the core, and runs its loop.

import { createServer, type Server } from "node:net";
import type { BodyArena } from "../engine/body-arena.ts";
import { Point, REAL_THREAD } from "../loop/point.ts";
import type { Resident } from "../loop/role.ts";
import { AcceptorPatience, EVENT_LOOP_SLEEP_MS_MAX, type Waiting } from "../loop/waiting-policy.ts";
import { acceptorThread, shardBell, type Topology } from "../message/topology.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { AcceptorCore } from "./acceptor-core.ts";
import { AcceptorLoop } from "./acceptor-loop.ts";
import type { ConnectionLog } from "./connection-log.ts";
import { NetTransport } from "./net-transport.ts";
import { type ProcessFacts, statsText } from "./stats-text.ts";
import type { UringSockets } from "./uring-sockets.ts";
import { VerboseLines } from "./verbose-lines.ts";

export type ListenAddress =
  | { kind: "tcp"; host: string; port: number; reusePort: boolean }
  /** A bound socket that somebody else owns, and that other acceptors may share: it is used and never closed. */
  | { kind: "descriptor"; fd: number };

export type TransportKind = "libuv" | "io_uring";

export interface AcceptorThreadData {
  topology: Topology;
  acceptor: number;
  facts: ProcessFacts;
  verbose: number;
  /** File descriptors that the process may have. */
  descriptorsMax: number;
  /** What moves the bytes of connections; "auto": io_uring where it is permitted, else libuv. */
  transport: TransportKind | "auto";
  waiting: Waiting;
}

/** What the main thread tells an acceptor. */
export type AcceptorOrder =
  | { order: "listen"; address: ListenAddress }
  /** Serves the connections accepted so far and all later ones. */
  | { order: "serve" }
  /** The last batch of verbose lines has been taken. */
  | { order: "say-more" }
  | { order: "stop" };

/** What an acceptor tells the main thread. */
export type AcceptorNews =
  /** The transport, and why it is not io_uring although that was tried. */
  | { news: "ready"; transport: TransportKind; refusal?: string }
  | { news: "listening"; port: number; fd: number }
  | { news: "failed"; code: string; message: string }
  | { news: "stopped" }
  | { news: "log"; level: "info" | "warn" | "error"; message: string }
  | { news: "verbose"; lines: string[]; dropped: number };

/** The thread's end of the way to the main thread. */
export interface AcceptorPort {
  on(event: "message", listener: (order: AcceptorOrder) => void): unknown;
  postMessage(news: AcceptorNews): void;
}

/** With io_uring the event loop has its turn after so many sleeps, or so long, at the latest, ms. */
const ROUNDS_MAX = 64;
const ROUNDS_MS_MAX = 5;
const BACKLOG = 1024;
/** Node takes no longer timer than 2^31 - 1 ms. */
const TIMER_MS_MAX = 3_600_000;
const READ_BUFFER_BYTES = 256 * 1024;
/** So many descriptors, or this share of the limit if that is less, are left to other threads: the log needs some. */
const DESCRIPTORS_KEPT = 32;
const DESCRIPTORS_KEPT_SHARE = 1 / 8;
/** The shortage is over when connections have fallen to this share of those at its beginning. */
const OPEN_AGAIN_SHARE = 0.95;

export class AcceptorThread {
  readonly #port: AcceptorPort;
  readonly #data: AcceptorThreadData;
  readonly #core: AcceptorCore;
  readonly #doorbell: DoorbellOwner;
  readonly #loop: AcceptorLoop;
  readonly #readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);
  #server: Server | undefined;
  /** It listens on a descriptor that it must not close. */
  #sharesDescriptor = false;
  readonly #verboseLines = new VerboseLines((lines, dropped) =>
    this.#tell({ news: "verbose", lines, dropped }),
  );
  /** A connection with this descriptor or a higher one is closed. */
  readonly #descriptorsEnd: number;
  /** Set when io_uring moves the bytes instead of the event loop. */
  #uring: UringSockets | undefined;
  #scheduled = false;
  #waitPending = false;
  #stopping = false;
  #timer: NodeJS.Timeout | undefined;
  /** Connections when the descriptors ran out; 0 while there are some. */
  #openAtLimit = 0;
  /** Clients that connected before the server was ready; undefined once it is. */
  #waitingClients: unknown[] | undefined = [];

  constructor(data: AcceptorThreadData, port: AcceptorPort) {
    this.#data = data;
    this.#port = port;
    const { topology, acceptor, facts } = data;
    this.#core = new AcceptorCore({
      topology,
      acceptor,
      nowMs: monotonicMs,
      statsText: () => statsText(topology, facts, monotonicMs()),
      trace: data.verbose > 1 ? (line) => this.#verboseLines.say(line) : undefined,
    });
    const { descriptorsMax } = data;
    const kept = Math.min(DESCRIPTORS_KEPT, Math.floor(descriptorsMax * DESCRIPTORS_KEPT_SHARE));
    this.#descriptorsEnd = descriptorsMax - kept;
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, acceptorThread(topology, acceptor));
    const hasOwnShards = topology.hostOf.every((host) => host === acceptor);
    this.#loop = new AcceptorLoop({
      core: this.#core,
      doorbell: this.#doorbell,
      shards: this.#core.requests.map((_, shard) => new Doorbell(words, shardBell(topology, shard))),
      counters: new TurnCounters(this.#core.counters, this.#core.responses),
      patience: new AcceptorPatience(data.waiting, monotonicMs, hasOwnShards),
      surroundings: REAL_THREAD,
    });
    port.on("message", (order) => this.#obey(order));
    void this.#open();
  }

  /** A shard of this thread is ready to serve. */
  addResident(role: Resident, shard: number, arena: BodyArena): void {
    this.#core.addLocalShard(shard, arena);
    this.#loop.residents.push(role);
    this.#wake();
  }

  async #open(): Promise<void> {
    const { transport } = this.#data;
    if (transport === "libuv") {
      this.#tell({ news: "ready", transport });
      return;
    }
    try {
      const { UringSockets } = await import("./uring-sockets.ts");
      const uring = new UringSockets(this.#core, this.#wake, this.#log);
      // A kernel may grant a ring and refuse its use.
      uring.turn();
      this.#uring = uring;
      this.#loop.sockets = uring;
      this.#tell({ news: "ready", transport: "io_uring" });
    } catch (error) {
      const { message } = error as Error;
      if (transport === "io_uring") this.#tell({ news: "failed", code: "IO_URING", message });
      else this.#tell({ news: "ready", transport: "libuv", refusal: message });
    }
  }

  #obey(order: AcceptorOrder): void {
    if (order.order === "listen") this.#listen(order.address);
    else if (order.order === "serve") this.#serve();
    else if (order.order === "say-more") this.#verboseLines.taken();
    else this.#stop();
  }

  // --- listening --------------------------------------------------------------------------------------------------

  #listen(address: ListenAddress): void {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    this.#server = server;
    server.on("error", (error: NodeJS.ErrnoException) => {
      this.#tell({ news: "failed", code: error.code ?? "UNKNOWN", message: error.message });
    });
    server.on("listening", () => {
      const handle = (server as unknown as { _handle: ListeningHandle })._handle;
      handle.onconnection = (status, client) => this.#accepted(status, client);
      const bound = server.address();
      const port = bound !== null && typeof bound === "object" ? bound.port : 0;
      this.#tell({ news: "listening", port, fd: handle.fd });
    });
    if (address.kind === "tcp") {
      server.listen({
        host: address.host,
        port: address.port,
        backlog: BACKLOG,
        reusePort: address.reusePort,
      });
    } else {
      this.#sharesDescriptor = true;
      // In the options Node does not look for it where there is a descriptor.
      server.listen({ fd: address.fd }, BACKLOG);
    }
  }

  #accepted(status: number, client: unknown): void {
    if (status !== 0 || client === undefined || client === null) {
      this.#error("a connection could not be accepted: out of file descriptors? raise the limit (ulimit -n)");
      return;
    }
    if ((client as AcceptedHandle).fd >= this.#descriptorsEnd) {
      (client as AcceptedHandle).close();
      this.#outOfDescriptors();
    } else if (this.#waitingClients === undefined) this.#serveOne(client);
    else this.#waitingClients.push(client);
  }

  #serveOne(client: unknown): void {
    if (this.#uring !== undefined) this.#uring.serve(client);
    else NetTransport.serve(client, this.#core, this.#readBuffer, this.#wake, this.#log);
  }

  /** The log is loaded: ids can be given now, and clients that have connected meanwhile are served. */
  #serve(): void {
    const clients = this.#waitingClients ?? [];
    this.#waitingClients = undefined;
    for (const client of clients) this.#serveOne(client);
    // Into the first sleep, from which shards can ring it: one of them may ask for a look before the first client comes.
    this.#wake();
  }

  readonly #log: ConnectionLog = {
    accepted: (descriptor: number): void => {
      this.#verbose(`accept ${descriptor}`);
    },
    closed: (descriptor: number): void => {
      this.#verbose(`close ${descriptor}`);
      if (this.#core.open < this.#openAtLimit * OPEN_AGAIN_SHARE) this.#descriptorsAgain();
      if (this.#stopping && this.#core.open === 0) this.#stopped();
    },
    noSlot: (): void =>
      this.#error("no slot left for a new connection: closed it; start with more --acceptors"),
  };

  #tell(news: AcceptorNews): void {
    this.#port.postMessage(news);
  }

  #error(message: string): void {
    this.#tell({ news: "log", level: "error", message });
  }

  /**
   * New descriptors get the lowest free number, so one near the limit means that they are used up but for those kept for
   * the log. A further connection is taken only to be closed at once, which costs nobody else anything; the operator is
   * told once.
   */
  #outOfDescriptors(): void {
    if (this.#openAtLimit > 0) return;
    this.#openAtLimit = Math.max(1, this.#core.open);
    this.#error(
      `out of file descriptors with ${this.#core.open} connections: new ones are closed until others end; raise the limit (ulimit -n, LimitNOFILE)`,
    );
  }

  #descriptorsAgain(): void {
    this.#openAtLimit = 0;
    this.#tell({
      news: "log",
      level: "info",
      message: "there are file descriptors again: new connections are served",
    });
  }

  #verbose(line: string): void {
    if (this.#data.verbose > 0) this.#verboseLines.say(line);
  }

  /** Stops accepting, answers what is under way, closes. */
  #stop(): void {
    this.#stopping = true;
    this.#stopListening();
    if (this.#core.open === 0) this.#stopped();
    else this.#core.endAll();
    this.#wake();
  }

  #stopped(): void {
    this.#verboseLines.flush();
    this.#tell({ news: "stopped" });
  }

  /**
   * A shared descriptor must stay open: closed by one acceptor, its number may belong to a file of the log when the next
   * closes it. But a handle has no way to stop listening other than `close`. It has one to stop reading, after which the
   * event loop no longer looks at the descriptor, and that is all: clients that connect from now on stay in the backlog,
   * for systemd's next start. A handle that was made of a descriptor counts as readable, so that it can be asked to.
   */
  #stopListening(): void {
    if (!this.#sharesDescriptor) {
      this.#server?.close();
      return;
    }
    const handle = (this.#server as unknown as { _handle: ListeningHandle | null })._handle;
    if (handle === null) return;
    handle.onconnection = (_status, client) => (client as AcceptedHandle | undefined)?.close();
    handle.readStart?.();
    handle.readStop?.();
  }

  // --- turns ------------------------------------------------------------------------------------------------------

  /** Something has come from a socket: a turn follows when the event loop has read all sockets that are ready. */
  readonly #wake = (): void => {
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
    this.#core.haveRead();
    if (this.#loop.next() === Point.Turned) this.#schedule();
    else if (!this.#listenToDoorbell()) this.#wake();
    else if (this.#loop.wakeAtMs !== Number.POSITIVE_INFINITY) this.#wakeLater(this.#loop.wakeAtMs);
  };

  /**
   * Takes turns, and waits in the kernel for the sockets and for the event loop. As long as that has nothing to do it is
   * left out: a round of it between any two turns costs a fifth of a command.
   */
  #turnAndWait(uring: UringSockets): void {
    // What comes from the sockets meanwhile need not schedule anything.
    this.#scheduled = true;
    const untilMs = monotonicMs() + ROUNDS_MS_MAX;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      if (this.#loop.next() === Point.Turned) break;
      if (!this.#listenToDoorbell()) {
        this.#loop.wake();
        break;
      }
      const sleepMs = Math.min(this.#loop.wakeAtMs - monotonicMs(), EVENT_LOOP_SLEEP_MS_MAX);
      const completions = uring.wait(Math.max(0, sleepMs));
      this.#loop.wake();
      if (completions === 0 || uring.eventLoopIsReady || monotonicMs() >= untilMs) break;
    }
    setImmediate(this.#turn);
  }

  /** A ring of the doorbell shows in the event loop from now on. False if it was rung already. */
  #listenToDoorbell(): boolean {
    // An earlier wait that nobody ended still waits on the same word, and will do.
    if (this.#waitPending) return true;
    const rung = this.#doorbell.sleepAsync();
    if (rung === undefined) return false;
    this.#waitPending = true;
    rung.then(() => {
      this.#waitPending = false;
      this.#wake();
    });
    return true;
  }

  /** Wakes it when a resident has something due. A later sleep sets the time anew. */
  #wakeLater(atMs: number): void {
    clearTimeout(this.#timer);
    const ms = Math.min(Math.ceil(atMs - monotonicMs()), TIMER_MS_MAX);
    this.#timer = setTimeout(this.#wake, Math.max(1, ms));
  }
}

interface ListeningHandle {
  readonly fd: number;
  onconnection: (status: number, client: unknown) => void;
  /** Internals of Node's. Without them connections are still taken while the server stops, and closed at once. */
  readStart?(): number;
  readStop?(): number;
}

/** A connection that libuv has accepted and nobody has served yet. */
interface AcceptedHandle {
  readonly fd: number;
  close(): void;
}
