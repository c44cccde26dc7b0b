// One acceptor of a thread: takes orders, listens, and passes clients to the transport.

import type { ManualChange } from "../message/manual-change.ts";
import {
  acceptorRole,
  Counter,
  countersOf,
  type Origin,
  SESSIONS_PER_ACCEPTOR_MAX,
  type Topology,
  threadOfAcceptor,
} from "../message/topology.ts";
import { AUTH } from "../protocol/commands.ts";
import { ConnectionCounts } from "../ring/connection-words.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { AdmissionControl, type Entry } from "./admission/admission-control.ts";
import type { AccessRules } from "./admission/listener-policy.ts";
import { AcceptorCore } from "./connection/acceptor-core.ts";
import type { MovedConnection } from "./migration/client-state.ts";
import { ConnectionMigrator, type Loads } from "./migration/connection-migrator.ts";
import { MigrationReceiver, MigrationWriter } from "./migration/migration-ring.ts";
import {
  type AcceptedHandle,
  type ConnectionContext,
  type ConnectionLog,
  type ListenAddress,
  Listener,
  peerAddress,
  peerName,
} from "./sockets/listener.ts";
import { ProxiedSockets } from "./sockets/proxied-sockets.ts";
import { TlsSockets } from "./sockets/tls-sockets.ts";
import { type ClosedConnection, ClosedConnections, type ConnectionFacts } from "./state/connection-facts.ts";
import { ManualChanges } from "./state/manual-changes.ts";
import { type ProcessFacts, statsText } from "./state/stats-text.ts";

// A shortage of file descriptors. New descriptors get the lowest free number, so one near the limit
// means that all but the reserve are in use. Its connection is accepted only to be closed at once,
// which affects no other client. The log reports the shortage once, and once more when it is over.

/** Descriptors left to other threads such as the log's; with a low limit, only this share of it. */
const DESCRIPTORS_KEPT = 32;
const DESCRIPTORS_KEPT_SHARE = 1 / 8;
/** A shortage of descriptors ends at this share of the connections at its start. */
const OPEN_AGAIN_SHARE = 0.95;

class DescriptorShortage {
  /** Connections with this descriptor or a higher one are closed. */
  readonly end: number;
  readonly #tell: (level: "info" | "error", message: string) => void;
  /** Connections at the moment the descriptors ran out; 0 while there are free ones. */
  #openAtLimit = 0;

  constructor(descriptorsMax: number, tell: (level: "info" | "error", message: string) => void) {
    const kept = Math.min(DESCRIPTORS_KEPT, Math.floor(descriptorsMax * DESCRIPTORS_KEPT_SHARE));
    this.end = descriptorsMax - kept;
    this.#tell = tell;
  }

  /** Notes a connection beyond the last usable descriptor, with `open` connections. */
  begin(open: number): void {
    if (this.#openAtLimit > 0) return;
    this.#openAtLimit = Math.max(1, open);
    this.#tell(
      "error",
      `out of file descriptors with ${open} connections: new ones are closed until others end; raise the limit (ulimit -n, LimitNOFILE)`,
    );
  }

  /** Notes that a connection has ended and `open` are left. */
  noteOpen(open: number): void {
    if (open >= this.#openAtLimit * OPEN_AGAIN_SHARE) return;
    this.#openAtLimit = 0;
    this.#tell("info", "file descriptors are free again: new connections are served");
  }
}

// Load of the threads with acceptors: tells whether one of them can take one more connection.

/** Minimum and maximum interval between two readings that show the current load, in ms. */
const WINDOW_MS_MIN = 100;
const WINDOW_MS_MAX = 2000;
/** A thread that sleeps for this share of the time has capacity to spare. */
const SPARE_SHARE = 0.25;
/** Shares of sleep that differ by less count as equal. */
const ABOUT = 0.1;
/**
 * Connections beyond which an acceptor takes no more from others, which leaves slots for new
 * clients.
 */
const OPEN_MAX = SESSIONS_PER_ACCEPTOR_MAX / 2;

export class ThreadLoads implements Loads {
  readonly #threadOf: readonly number[];
  /** By acceptor. */
  readonly #counters: readonly Float64Array[];
  readonly #acceptors: readonly (readonly number[])[];
  readonly #own: number;
  /**
   * By thread: the time it had slept at the last reading, and its share of sleep between the last
   * two.
   */
  readonly #idleMs: number[];
  readonly #spare: number[];
  #readAtMs = 0;

  constructor(topology: Topology, acceptor: number) {
    const { threads, acceptors } = topology;
    const all = Array.from({ length: acceptors }, (_, each) => each);
    this.#threadOf = all.map((each) => threadOfAcceptor(topology, each));
    this.#counters = all.map((each) => countersOf(topology, acceptorRole(topology, each)));
    this.#acceptors = threads.map((thread) => thread.acceptors);
    this.#own = this.#threadOf[acceptor]!;
    this.#idleMs = threads.map(() => 0);
    this.#spare = threads.map(() => 0);
  }

  /**
   * Returns whether an acceptor can take one more connection. Its thread must have capacity to
   * spare, or be no busier than this one: otherwise a hot tube would pull all work to one core. The
   * comparison of connections keeps two threads that exchange connections balanced.
   */
  mayTakeOne(acceptor: number, nowMs: number): boolean {
    const thread = this.#threadOf[acceptor]!;
    if (this.#counters[acceptor]![Counter.TakesMoved] !== 1) return false;
    if (!this.#isFresh(nowMs) || this.#openOf(acceptor) >= OPEN_MAX) return false;
    const [spare, ownSpare] = [this.#spare[thread]!, this.#spare[this.#own]!];
    if (spare >= SPARE_SHARE) return true;
    return spare >= ownSpare - ABOUT && this.#openAt(thread) <= this.#openAt(this.#own);
  }

  /** Takes a new reading if it is time. Returns whether the last reading is current. */
  #isFresh(nowMs: number): boolean {
    const windowMs = nowMs - this.#readAtMs;
    if (windowMs < WINDOW_MS_MIN) return true;
    this.#readAtMs = nowMs;
    for (const [thread, acceptors] of this.#acceptors.entries()) {
      if (acceptors.length === 0) continue;
      const counters = this.#counters[acceptors[0]!]!;
      const sinceMs = counters[Counter.IdleSinceMs]!;
      const idleMs = counters[Counter.IdleMs]! + (sinceMs > 0 ? Math.max(0, nowMs - sinceMs) : 0);
      this.#spare[thread] = (idleMs - this.#idleMs[thread]!) / windowMs;
      this.#idleMs[thread] = idleMs;
    }
    return windowMs <= WINDOW_MS_MAX;
  }

  #openAt(thread: number): number {
    return this.#acceptors[thread]!.reduce((open, acceptor) => open + this.#openOf(acceptor), 0);
  }

  #openOf(acceptor: number): number {
    const counters = this.#counters[acceptor]!;
    return counters[Counter.Connections]! + counters[Counter.MovedIn]! - counters[Counter.MovedOut]!;
  }
}

// Lines or other items on their way to the main thread. The next batch is sent when the main thread
// has taken the previous one. That bounds the backlog of a main thread that is slower than the
// clients: excess items are dropped and counted.

const ITEMS_MAX = 1000;

export class Backlog<Item> {
  readonly #send: (items: Item[], dropped: number) => void;
  readonly #onDrop: () => void;
  #items: Item[] = [];
  #dropped = 0;
  #underWay = false;

  /** `onDrop` is called for each item that is not kept, `send` with their count later. */
  constructor(send: (items: Item[], dropped: number) => void, onDrop: () => void = () => {}) {
    this.#send = send;
    this.#onDrop = onDrop;
  }

  add(item: Item): void {
    if (this.#items.length < ITEMS_MAX) this.#items.push(item);
    else this.drop();
    if (!this.#underWay) this.flush();
  }

  /** Counts an item that is not kept. The count goes with the next one. */
  drop(): void {
    this.#dropped++;
    this.#onDrop();
  }

  /** Called when the main thread has taken the last batch. */
  taken(): void {
    this.#underWay = false;
    this.flush();
  }

  /**
   * Sends the gathered items even if the last batch was not taken yet: for the last ones before an
   * exit.
   */
  flush(): void {
    if (this.#items.length === 0 && this.#dropped === 0) return;
    this.#underWay = true;
    this.#send(this.#items, this.#dropped);
    this.#items = [];
    this.#dropped = 0;
  }
}

export type TransportKind = "libuv" | "io_uring";

/** Settings common to all acceptors. */
export interface AcceptorSettings {
  topology: Topology;
  facts: ProcessFacts;
  verbose: number;
  /** File descriptors that the process may open. */
  descriptorsMax: number;
  rules: AccessRules;
  /** See ring/connection-words.ts; undefined if the number of connections has no limit. */
  connectionCounts: { buffer: SharedArrayBuffer; seed: number } | undefined;
}

/** An order from the main thread. */
export type AcceptorOrder =
  | { order: "listen"; address: ListenAddress }
  /** Closes the ports: no client can connect until `listen-again`. Connections stay. */
  | { order: "close-ports" }
  | { order: "listen-again" }
  /** Replaces the access rules. */
  | { order: "configure"; rules: AccessRules }
  /** Serves the connections accepted so far and all later ones. */
  | { order: "serve"; origins: readonly Origin[] }
  /** The main thread has taken the last batch of verbose lines. */
  | { order: "say-more" }
  /** The same for changes by hand. */
  | { order: "more-changes" }
  /** Queries about connections, and an order to end one. */
  | { order: "tell-connections"; question: number }
  | { order: "tell-closed"; question: number }
  | { order: "end-connection"; question: number; slot: number; serial: number }
  | { order: "stop" };

/** A message to the main thread. */
export type AcceptorNews =
  /** The transport in use and, if io_uring was tried in vain, the reason. */
  | { news: "ready"; transport: TransportKind; refusal?: string }
  | { news: "listening"; port: number; fd: number }
  | { news: "failed"; code: string; message: string }
  | { news: "stopped" }
  /** Answers to tell-connections, tell-closed and end-connection. */
  | { news: "connections"; question: number; acceptor: number; connections: readonly ConnectionFacts[] }
  | { news: "closed"; question: number; acceptor: number; connections: readonly ClosedConnection[] }
  | { news: "connection-ended"; question: number; acceptor: number; found: boolean }
  | { news: "log"; level: "info" | "warn" | "error"; message: string }
  | { news: "verbose"; lines: string[]; dropped: number }
  | { news: "changes"; changes: readonly ManualChange[]; dropped: number };

/** An acceptor's port to the main thread. */
export interface AcceptorPort {
  on(event: "message", listener: (order: AcceptorOrder) => void): unknown;
  postMessage(news: AcceptorNews): void;
}

/** An acceptor's interface to its thread. */
export interface AcceptorSurroundings {
  /** Starts moving the bytes of an accepted client. */
  serve(client: unknown, context: ConnectionContext): void;
  /** Does the same for a connection from another thread. */
  land(moved: MovedConnection, core: AcceptorCore, log: ConnectionLog): void;
  /** Schedules a turn. */
  wake(): void;
  /** Schedules a turn, and some rounds of the event loop before the next sleep. */
  wakeForLibuv(): void;
  /**
   * Returns the acceptor that listens on a descriptor: the first of the thread that was told to.
   */
  listenerOf(fd: number, acceptor: Acceptor): Acceptor;
}

/** Commands to one other shard after which a connection may move. */
const MOVE_COMMANDS = 64;
/** Delay before a retry on a port that another program has taken. */
const LISTEN_AGAIN_MS = 1000;

/** An address on which this acceptor, or another one of its thread on its behalf, listens. */
interface ListenerSlot {
  listener: Listener | undefined;
  /** Its address, with the port that was assigned. */
  address: ListenAddress;
  /** The acceptors of this thread that share the listener's descriptor, including this one. */
  readonly sharing: Acceptor[];
  lastTaker: number;
}

export class Acceptor {
  readonly core: AcceptorCore;
  readonly #port: AcceptorPort;
  readonly #thread: AcceptorSurroundings;
  readonly #number: number;
  readonly #verbosity: number;
  /** In the order of the listen orders, which is the order of the rules. */
  readonly #places: ListenerSlot[] = [];
  #rules: AccessRules;
  readonly #admission: AdmissionControl;
  readonly #proxied = new ProxiedSockets();
  /** The TLS sockets of listeners with TLS, by index. */
  readonly #tls = new Map<number, TlsSockets>();
  /** The context for clients that are accepted without checks. */
  readonly #context: ConnectionContext;
  readonly #verboseLines = new Backlog<string>((lines, dropped) =>
    this.tell({ news: "verbose", lines, dropped }),
  );
  readonly #changes = new Backlog<ManualChange>(
    (changes, dropped) => this.tell({ news: "changes", changes, dropped }),
    () => this.core.counters[Counter.UnrecordedChanges]!++,
  );
  readonly #descriptors: DescriptorShortage;
  #stopping = false;
  /** Whether the ports are closed only for a while. */
  #mayListenAgain = false;
  /** Clients that connected before the server was ready; undefined once it is. */
  #waitingClients: { client: AcceptedHandle; place: number }[] | undefined = [];

  /** `port` leads to the main thread. */
  constructor(
    settings: AcceptorSettings,
    acceptor: number,
    port: AcceptorPort,
    thread: AcceptorSurroundings,
  ) {
    const { topology, facts, verbose, descriptorsMax, rules } = settings;
    this.#rules = rules;
    this.#port = port;
    this.#thread = thread;
    this.#number = acceptor;
    this.#verbosity = verbose;
    this.core = new AcceptorCore({
      topology,
      acceptor,
      nowMs: monotonicMs,
      statsText: () => statsText(topology, facts, monotonicMs()),
      // Only the HTTP thread asks for them.
      closed: topology.ports > topology.acceptors ? new ClosedConnections() : undefined,
      trace: verbose > 1 ? (line) => this.#verboseLines.add(line) : undefined,
    });
    this.core.changes = new ManualChanges(
      { nowMs: monotonicMs, wallMs: Date.now },
      (change) => this.#changes.add(change),
      () => this.#changes.drop(),
    );
    this.#admission = this.#createAdmission(settings);
    this.#context = {
      core: this.core,
      onActivity: thread.wake,
      log: this.#log,
      keepAlive: this.#admission.keepAlive,
      entry: undefined,
    };
    this.#descriptors = new DescriptorShortage(descriptorsMax, (level, message) =>
      this.tell({ news: "log", level, message }),
    );
    port.on("message", (order) => this.#obey(order));
  }

  /**
   * Lets connections move to and from other acceptors. Only for threads that move the bytes
   * themselves: with libuv, a socket belongs to an event loop.
   */
  beginMigration(acceptor: number, topology: Topology): void {
    const { core } = this;
    const ring = (from: number, to: number): SharedArrayBuffer | undefined =>
      topology.migrationRings[from]![to];
    const rings = topology.migrationRings.flatMap((_, from) => ring(from, acceptor) ?? []);
    core.migrationReceiver = new MigrationReceiver(rings, (moved) =>
      this.#thread.land(moved, core, this.#log),
    );
    core.counters[Counter.TakesMoved] = 1;
    core.migrator = new ConnectionMigrator({
      topology,
      core,
      acceptor,
      loads: new ThreadLoads(topology, acceptor),
      commands: MOVE_COMMANDS,
      nowMs: monotonicMs,
      ways: topology.migrationRings[acceptor]!.map((way) =>
        way === undefined ? undefined : new MigrationWriter(way),
      ),
    });
  }

  #obey(order: AcceptorOrder): void {
    if (order.order === "listen") this.#listen(order.address);
    else if (order.order === "close-ports") this.#closePorts();
    else if (order.order === "listen-again") {
      this.#mayListenAgain = true;
      this.#listenAgain();
    } else if (order.order === "configure") this.#configure(order.rules);
    else if (order.order === "serve") this.#serve(order.origins);
    else if (order.order === "say-more") this.#verboseLines.taken();
    else if (order.order === "more-changes") this.#changes.taken();
    else if (order.order === "tell-connections") this.#tellConnections(order.question);
    else if (order.order === "tell-closed") this.#tellClosed(order.question);
    else if (order.order === "end-connection") this.#endConnection(order.question, order.slot, order.serial);
    else this.#stop();
  }

  #tellConnections(question: number): void {
    const connections = this.core.slots.facts();
    this.tell({ news: "connections", question, acceptor: this.#number, connections });
  }

  #tellClosed(question: number): void {
    const connections = this.core.closed?.list ?? [];
    this.tell({ news: "closed", question, acceptor: this.#number, connections });
  }

  #endConnection(question: number, slot: number, serial: number): void {
    const found = this.core.slots.endOne(slot, serial);
    this.#thread.wake();
    this.tell({ news: "connection-ended", question, acceptor: this.#number, found });
  }

  // --- listening ---------------------------------------------------------------------------------

  /** Listens, once per thread and descriptor: an event loop can watch a descriptor only once. */
  #listen(address: ListenAddress): void {
    const index = this.#places.length;
    const place: ListenerSlot = { sharing: [this], lastTaker: 0, address, listener: undefined };
    this.#openTls(index);
    if (address.kind === "descriptor") {
      const taker = this.#thread.listenerOf(address.fd, this);
      if (taker !== this) {
        // All acceptors get the same addresses in the same order.
        taker.#places[index]!.sharing.push(this);
        this.#places.push(place);
        this.tell({ news: "listening", port: 0, fd: address.fd });
        return;
      }
    }
    this.#places.push(place);
    this.#open(place, index);
  }

  #open(place: ListenerSlot, index: number): void {
    place.listener = new Listener(place.address, {
      listening: (port, fd) => {
        if (place.address.kind === "tcp") place.address = { ...place.address, port };
        this.tell({ news: "listening", port, fd });
      },
      failed: (code, message) => {
        place.listener = undefined;
        this.tell({ news: "failed", code, message });
        setTimeout(() => this.#listenAgain(), LISTEN_AGAIN_MS).unref();
      },
      accepted: (client) => this.#accepted(client, index),
    });
  }

  /** Closes the ports. A descriptor with another owner stays open. */
  #closePorts(): void {
    this.#mayListenAgain = false;
    for (const place of this.#places) {
      if (place.address.kind === "descriptor") continue;
      place.listener?.stop();
      place.listener = undefined;
    }
  }

  /** Opens closed ports again, even after an attempt that failed because the port was taken. */
  #listenAgain(): void {
    if (this.#stopping || !this.#mayListenAgain) return;
    for (const [index, place] of this.#places.entries())
      if (place.listener === undefined && place.address.kind === "tcp") this.#open(place, index);
  }

  #accepted(client: AcceptedHandle | undefined, place: number): void {
    if (client === undefined) {
      this.#error("a connection could not be accepted: out of file descriptors? raise the limit (ulimit -n)");
      return;
    }
    if (client.fd >= this.#descriptors.end) {
      client.close();
      const { counters, open } = this.core;
      counters[Counter.RejectedDescriptors] = counters[Counter.RejectedDescriptors]! + 1;
      this.#descriptors.begin(open);
    } else this.#nextTaker(this.#places[place]!).#take(client, place);
  }

  /** Returns the acceptor for the next client: round robin, without those that are stopping. */
  #nextTaker(place: ListenerSlot): Acceptor {
    place.lastTaker = (place.lastTaker + 1) % place.sharing.length;
    const taker = place.sharing[place.lastTaker]!;
    return taker.#stopping ? this : taker;
  }

  #take(client: AcceptedHandle, place: number): void {
    if (this.#waitingClients === undefined) this.#serveOne(client, place);
    else this.#waitingClients.push({ client, place });
  }

  #serveOne(client: AcceptedHandle, place: number): void {
    const address = peerAddress(client);
    // No rule could tell whether it may come in, and nobody reads its replies.
    if (address === undefined) {
      client.close();
      return;
    }
    if (!this.#admission.isProxied(place, address)) {
      this.#serveNamed(client, place, undefined);
      return;
    }
    this.#proxied.readHandle(
      client,
      (bytes) => this.#serveNamed(client, place, bytes),
      (why) => this.#admission.noteHeaderFailure(place, why),
    );
    this.#thread.wakeForLibuv();
  }

  /** Serves a client whose address is known, and of which `bytes` have been read. */
  #serveNamed(client: AcceptedHandle, place: number, bytes: Buffer | undefined): void {
    const context = { ...this.#context, peer: peerName(client), listener: place, bytes };
    if (this.#admission.isOpen(place) && !this.#tls.has(place)) this.#thread.serve(client, context);
    else this.#letIn(client, place, context);
  }

  /** Serves a client of a listener or a server with access rules. */
  #letIn(client: AcceptedHandle, place: number, { peer, listener, bytes }: ConnectionContext): void {
    const address = peerAddress(client);
    const entry = address === undefined ? "gone" : this.#admission.admit(place, address);
    if (typeof entry === "string") {
      client.close();
      return;
    }
    const context = {
      ...this.#context,
      keepAlive: this.#admission.keepAlive,
      entry,
      peer,
      listener,
      bytes,
      log: this.#logOf(entry),
    };
    const tls = this.#tls.get(place);
    if (tls === undefined) {
      this.#thread.serve(client, context);
      return;
    }
    const identify = this.#admission.identifies(place) ? entry.identify : undefined;
    tls.serve(client, { ...context, onActivity: this.#thread.wakeForLibuv }, identify);
    this.#thread.wakeForLibuv();
  }

  #logOf(entry: Entry): ConnectionLog {
    const { closed, noSlot } = this.#log;
    return {
      ...this.#log,
      closed: (descriptor) => {
        entry.leave();
        closed(descriptor);
      },
      noSlot: () => {
        entry.leave();
        noSlot();
      },
    };
  }

  #createAdmission({ rules, connectionCounts: counts }: AcceptorSettings): AdmissionControl {
    return new AdmissionControl({
      rules,
      counts: counts === undefined ? undefined : new ConnectionCounts(counts.buffer, counts.seed),
      counters: this.core.counters,
      parser: this.core.parserWith([AUTH]),
      nowMs: monotonicMs,
      unixMs: Date.now,
      warn: (message) => this.tell({ news: "log", level: "warn", message }),
      wake: this.#thread.wake,
    });
  }

  #openTls(index: number): void {
    const policy = this.#rules.policies[index];
    if (policy?.tls === undefined) return;
    const onFailure = (why: string): void => this.#admission.noteTlsFailure(policy.name, why);
    this.#tls.set(index, new TlsSockets(policy.tls, onFailure));
  }

  #configure(rules: AccessRules): void {
    this.#rules = rules;
    this.#admission.configure(rules);
    rules.policies.forEach((policy, index) => {
      if (policy?.tls !== undefined) this.#tls.get(index)?.configure(policy.tls);
    });
  }

  /** Serves the waiting and all later clients: the log is loaded, so ids can be assigned. */
  #serve(origins: readonly Origin[]): void {
    this.core.origins = origins;
    const clients = this.#waitingClients ?? [];
    this.#waitingClients = undefined;
    for (const { client, place } of clients) this.#serveOne(client, place);
    // Enter the first sleep, in which shards can ring this thread: one of them may request a read
    // barrier before the first client connects.
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
      this.#descriptors.noteOpen(this.core.open);
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

  #verbose(line: string): void {
    if (this.#verbosity > 0) this.#verboseLines.add(line);
  }

  /** Stops accepting, answers the commands in flight, then closes. */
  #stop(): void {
    this.#stopping = true;
    for (const { listener } of this.#places) listener?.stop();
    this.#proxied.stop();
    for (const sockets of this.#tls.values()) sockets.stop();
    this.core.endAll();
    if (this.core.open === 0) this.#stopped();
    this.#thread.wake();
  }

  #stopped(): void {
    this.#verboseLines.flush();
    this.#changes.flush();
    this.tell({ news: "stopped" });
  }
}
