// One acceptor of a thread: takes orders from the main thread, listens, and hands clients to what moves their bytes.

import { createServer, type Server } from "node:net";
import { Counter, type Topology } from "../message/topology.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { AcceptorCore } from "./acceptor-core.ts";
import type { ConnectionLog } from "./connection-log.ts";
import { HostLoads } from "./host-loads.ts";
import type { MovedConnection } from "./moved-connection.ts";
import { Moves } from "./moves.ts";
import { type ProcessFacts, statsText } from "./stats-text.ts";
import { VerboseLines } from "./verbose-lines.ts";

export type ListenAddress =
  | { kind: "tcp"; host: string; port: number; reusePort: boolean }
  /** A bound socket that somebody else owns, and that other acceptors may share: it is used and never closed. */
  | { kind: "descriptor"; fd: number };

export type TransportKind = "libuv" | "io_uring";

/** What all acceptors are made with. */
export interface AcceptorSettings {
  topology: Topology;
  facts: ProcessFacts;
  verbose: number;
  /** File descriptors that the process may have. */
  descriptorsMax: number;
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

/** An acceptor's end of the way to another one, for connections that move. */
export interface PeerPort {
  on(event: "message", listener: (moved: MovedConnection) => void): unknown;
  postMessage(moved: MovedConnection): void;
}

/** An acceptor's end of the way to the main thread. */
export interface AcceptorPort {
  on(event: "message", listener: (order: AcceptorOrder) => void): unknown;
  postMessage(news: AcceptorNews): void;
}

/** The thread of an acceptor, as it knows it. */
export interface AcceptorSurroundings {
  /** Moves the bytes of an accepted client from now on. */
  serve(client: unknown, core: AcceptorCore, log: ConnectionLog): void;
  /** The same for one that has come from another thread. */
  land(moved: MovedConnection, core: AcceptorCore, log: ConnectionLog): void;
  /** A turn must follow soon. */
  wake(): void;
  /** The acceptor that listens on a descriptor: the first of the thread that was told to. */
  listenerOf(fd: number, acceptor: Acceptor): Acceptor;
}

const BACKLOG = 1024;
/** A connection follows its tube when so many commands have gone to one other shard. */
const MOVE_COMMANDS = 64;
/** So many descriptors, or this share of the limit if that is less, are left to other threads: the log needs some. */
const DESCRIPTORS_KEPT = 32;
const DESCRIPTORS_KEPT_SHARE = 1 / 8;
/** The shortage is over when connections have fallen to this share of those at its beginning. */
const OPEN_AGAIN_SHARE = 0.95;

export class Acceptor {
  readonly core: AcceptorCore;
  readonly #port: AcceptorPort;
  readonly #thread: AcceptorSurroundings;
  readonly #verbosity: number;
  #server: Server | undefined;
  /** The acceptors of this thread that share its listening descriptor, itself among them. */
  readonly #sharing: Acceptor[] = [this];
  #lastTaker = 0;
  /** It listens on a descriptor that it must not close. */
  #sharesDescriptor = false;
  readonly #verboseLines = new VerboseLines((lines, dropped) =>
    this.tell({ news: "verbose", lines, dropped }),
  );
  /** A connection with this descriptor or a higher one is closed. */
  readonly #descriptorsEnd: number;
  #stopping = false;
  /** Connections when the descriptors ran out; 0 while there are some. */
  #openAtLimit = 0;
  /** Clients that connected before the server was ready; undefined once it is. */
  #waitingClients: unknown[] | undefined = [];

  /** `port` leads to the main thread. */
  constructor(
    settings: AcceptorSettings,
    acceptor: number,
    port: AcceptorPort,
    thread: AcceptorSurroundings,
  ) {
    const { topology, facts, verbose, descriptorsMax } = settings;
    this.#port = port;
    this.#thread = thread;
    this.#verbosity = verbose;
    this.core = new AcceptorCore({
      topology,
      acceptor,
      nowMs: monotonicMs,
      statsText: () => statsText(topology, facts, monotonicMs()),
      trace: verbose > 1 ? (line) => this.#verboseLines.say(line) : undefined,
    });
    const kept = Math.min(DESCRIPTORS_KEPT, Math.floor(descriptorsMax * DESCRIPTORS_KEPT_SHARE));
    this.#descriptorsEnd = descriptorsMax - kept;
    port.on("message", (order) => this.#obey(order));
  }

  /**
   * Connections may move to and from other acceptors from now on; `peers` leads to each. For threads that move the bytes
   * themselves: with libuv a socket belongs to an event loop.
   */
  beginMoves(acceptor: number, topology: Topology, peers: readonly (PeerPort | undefined)[]): void {
    const { core } = this;
    for (const peer of peers) peer?.on("message", (moved) => this.#thread.land(moved, core, this.#log));
    core.counters[Counter.TakesMoved] = 1;
    core.moves = new Moves({
      topology,
      core,
      acceptor,
      loads: new HostLoads(topology, acceptor),
      commands: MOVE_COMMANDS,
      nowMs: monotonicMs,
      send: (target, moved) => peers[target]!.postMessage(moved),
    });
  }

  #obey(order: AcceptorOrder): void {
    if (order.order === "listen") this.#listen(order.address);
    else if (order.order === "serve") this.#serve();
    else if (order.order === "say-more") this.#verboseLines.taken();
    else this.#stop();
  }

  // --- listening --------------------------------------------------------------------------------------------------

  /** An event loop can watch a descriptor once: so acceptors of one thread that share one have one of them listen. */
  #listen(address: ListenAddress): void {
    if (address.kind === "descriptor") {
      const listener = this.#thread.listenerOf(address.fd, this);
      if (listener !== this) {
        listener.#sharing.push(this);
        this.tell({ news: "listening", port: 0, fd: address.fd });
        return;
      }
    }
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    this.#server = server;
    server.on("error", (error: NodeJS.ErrnoException) => {
      this.tell({ news: "failed", code: error.code ?? "UNKNOWN", message: error.message });
    });
    server.on("listening", () => {
      const handle = (server as unknown as { _handle: ListeningHandle })._handle;
      handle.onconnection = (status, client) => this.#accepted(status, client);
      const bound = server.address();
      const port = bound !== null && typeof bound === "object" ? bound.port : 0;
      this.tell({ news: "listening", port, fd: handle.fd });
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
    } else this.#nextTaker().#take(client);
  }

  /** Who takes the next client: those that share the descriptor in turn, but none that stops. */
  #nextTaker(): Acceptor {
    this.#lastTaker = (this.#lastTaker + 1) % this.#sharing.length;
    const taker = this.#sharing[this.#lastTaker]!;
    return taker.#stopping ? this : taker;
  }

  #take(client: unknown): void {
    if (this.#waitingClients === undefined) this.#serveOne(client);
    else this.#waitingClients.push(client);
  }

  #serveOne(client: unknown): void {
    this.#thread.serve(client, this.core, this.#log);
  }

  /** The log is loaded: ids can be given now, and clients that have connected meanwhile are served. */
  #serve(): void {
    const clients = this.#waitingClients ?? [];
    this.#waitingClients = undefined;
    for (const client of clients) this.#serveOne(client);
    // Into the first sleep, from which shards can ring it: one of them may ask for a look before the first client comes.
    this.#thread.wake();
  }

  readonly #log: ConnectionLog = {
    accepted: (descriptor: number): void => {
      this.#verbose(`accept ${descriptor}`);
    },
    left: (descriptor: number): void => {
      this.#verbose(`move ${descriptor} to another acceptor`);
    },
    arrived: (descriptor: number): void => {
      this.#verbose(`move ${descriptor} from another acceptor`);
    },
    closed: (descriptor: number): void => {
      this.#verbose(`close ${descriptor}`);
      if (this.core.open < this.#openAtLimit * OPEN_AGAIN_SHARE) this.#descriptorsAgain();
      if (this.#stopping && this.core.open === 0) this.#stopped();
    },
    noSlot: (): void =>
      this.#error("no slot left for a new connection: closed it; start with more --acceptors"),
  };

  tell(news: AcceptorNews): void {
    this.#port.postMessage(news);
  }

  #error(message: string): void {
    this.tell({ news: "log", level: "error", message });
  }

  /**
   * New descriptors get the lowest free number, so one near the limit means that they are used up but for those kept for
   * the log. A further connection is taken only to be closed at once, which costs nobody else anything; the operator is
   * told once.
   */
  #outOfDescriptors(): void {
    if (this.#openAtLimit > 0) return;
    this.#openAtLimit = Math.max(1, this.core.open);
    this.#error(
      `out of file descriptors with ${this.core.open} connections: new ones are closed until others end; raise the limit (ulimit -n, LimitNOFILE)`,
    );
  }

  #descriptorsAgain(): void {
    this.#openAtLimit = 0;
    this.tell({
      news: "log",
      level: "info",
      message: "there are file descriptors again: new connections are served",
    });
  }

  #verbose(line: string): void {
    if (this.#verbosity > 0) this.#verboseLines.say(line);
  }

  /** Stops accepting, answers what is under way, closes. */
  #stop(): void {
    this.#stopping = true;
    this.#stopListening();
    if (this.core.open === 0) this.#stopped();
    else this.core.endAll();
    this.#thread.wake();
  }

  #stopped(): void {
    this.#verboseLines.flush();
    this.tell({ news: "stopped" });
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
