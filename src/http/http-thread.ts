// The HTTP thread: its port to the shards, its periodic tasks and the HTTP servers.
//
// It may be slow without holding up the queue. An error in a request becomes a response and doesn't
// end the thread.

import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { AcceptorLoop } from "../acceptor/acceptor-loop.ts";
import type { ShownCertificate, TlsPolicy } from "../acceptor/admission/listener-policy.ts";
import { AcceptorCore } from "../acceptor/connection/acceptor-core.ts";
import {
  type CheckedSocket,
  contextOf,
  namesOf,
  type SecureServer,
  serverOptionsOf,
} from "../acceptor/sockets/tls-context.ts";
import { type ProcessFacts, statsText } from "../acceptor/state/stats-text.ts";
import type { Token } from "../access/token-file.ts";
import { Point, REAL_THREAD } from "../loop/role.ts";
import type { PollPolicy } from "../loop/waiting-policy.ts";
import type { GroupMembers } from "../message/group.ts";
import type { ScrubReport } from "../message/log-figures.ts";
import type { ManualChange } from "../message/manual-change.ts";
import {
  Counter,
  httpBell,
  httpPort,
  memoryWords,
  type Topology,
  threadOfShard,
} from "../message/topology.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { ControlWords } from "../ring/shared-words.ts";
import { attentionRoutes } from "./admin/attention.ts";
import { connectionRoutes } from "./admin/connection-routes.ts";
import { healthRoutes, metricsRoutes, probeRoutes } from "./admin/monitoring-routes.ts";
import {
  groupRoutes,
  ReloadClient,
  type ReloadOutcome,
  reloadRoutes,
  serverRoutes,
  syncCountsOf,
} from "./admin/server-routes.ts";
import { backupRoutes, taskRoutes } from "./admin/task-routes.ts";
import { ANSWER_BYTES_MAX, BODY_BYTES_MAX, createApp } from "./app/app.ts";
import { auditRoutes } from "./app/audit.ts";
import { Authentication } from "./app/authentication.ts";
import { dashboardRoutes } from "./app/dashboard-routes.ts";
import { eventRoutes } from "./app/event-routes.ts";
import { type EarlyPort, type HttpListener, listen } from "./early-port.ts";
import { type HttpAddress, type HttpAlso, lowerPriority, SERVED, servedRoutes } from "./http-address.ts";
import { batchRoutes } from "./jobs/batch-routes.ts";
import { browseRoutes } from "./jobs/browse-routes.ts";
import { finishedRoutes } from "./jobs/finished-routes.ts";
import { jobRoutes, manageJobRoutes } from "./jobs/job-routes.ts";
import { putRoutes } from "./jobs/put-routes.ts";
import { leaseRoutes, reserveRoutes } from "./jobs/reserve-routes.ts";
import { scheduleRoutes } from "./jobs/schedule-routes.ts";
import { ConnectionBudget, RequestBudget, ResponseBudget } from "./limits/budgets.ts";
import { RequestLimit } from "./limits/request-limit.ts";
import { RequestMeter } from "./limits/request-meter.ts";
import { ControlClient, Liveness } from "./link/control-client.ts";
import { PutPool } from "./link/put-pool.ts";
import { Bodies, WireClients } from "./link/wire-connection.ts";
import { ProxiedHttp } from "./proxied-http.ts";
import { Backups } from "./queue/backups.ts";
import { type AcceptorAnswer, type AcceptorQuestion, ConnectionClient } from "./queue/connection-client.ts";
import { measureTubes } from "./queue/health.ts";
import { GiveBacks } from "./queue/lease-changes.ts";
import { Reservations } from "./queue/reservations.ts";
import {
  AuditLog,
  type OpenListener,
  type ServerFacts,
  type ServerState,
  type Service,
} from "./queue/service.ts";
import { SAVE_EACH_MS, SavedHistories } from "./state/history-file.ts";
import { IdempotencyKeys } from "./state/idempotency.ts";
import { LeaseTable } from "./state/lease-table.ts";
import { StatsHistory, SYNC_STEP_SECONDS, SyncHistory } from "./state/stats-history.ts";
import { TaskRegistry } from "./state/task-registry.ts";
import { MeasuredTubes, type MetricsRules } from "./state/time-series.ts";
import { TubeCache } from "./state/tube-cache.ts";
import { TubeHistory } from "./state/tube-history.ts";
import { manageRoutes } from "./tubes/manage-routes.ts";
import { settingsRoutes } from "./tubes/settings-routes.ts";
import { tubeRoutes } from "./tubes/tube-routes.ts";

// Names of an HTTPS client, from its certificate, which TLS has verified.

/** Cached, since all requests of a connection share one certificate. */
const known = new WeakMap<object, readonly string[]>();

/** Returns the names for a request's socket; none without a verified certificate. */
function certificateNames(socket: object): readonly string[] {
  const { authorized, getPeerCertificate } = socket as Partial<CheckedSocket>;
  if (authorized !== true || getPeerCertificate === undefined) return [];
  let names = known.get(socket);
  if (names === undefined) {
    names = namesOf((socket as CheckedSocket).getPeerCertificate());
    known.set(socket, names);
  }
  return names;
}

// Loop of the HTTP thread's port: an acceptor's loop inside the event loop, without sockets and
// without polling.
//
// It sleeps as soon as it is idle. HTTP clients can afford the 50 us of a wake, and the cores
// belong to the queue.

const NO_POLLING: PollPolicy = { worked() {}, looks: () => 0, turnsAgain: () => false };

class PortLoop {
  readonly #loop: AcceptorLoop;
  readonly #doorbell: DoorbellOwner;
  #scheduled = false;

  constructor(topology: Topology, core: AcceptorCore) {
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, httpBell(topology));
    this.#loop = new AcceptorLoop({
      core,
      doorbell: this.#doorbell,
      shards: core.links.requests.map((_, shard) => new Doorbell(words, threadOfShard(topology, shard))),
      counters: new TurnCounters(core.counters, core.links.responses),
      pollPolicy: NO_POLLING,
      surroundings: REAL_THREAD,
    });
  }

  /** Schedules a turn after the pending events of the event loop, to send new messages. */
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
    if (this.#loop.next() === Point.Turned) this.#schedule();
    else if (!this.#doorbell.wakeOnBell(this.wake)) this.wake();
  };
}

export interface HttpThreadData {
  readonly topology: Topology;
  readonly facts: ServerFacts;
  /** Process data for the `stats` command. */
  readonly stats: ProcessFacts;
  readonly address: HttpAddress;
  /** Further addresses. */
  readonly also: readonly HttpAlso[];
  /** Allowed host names, besides addresses and localhost. */
  readonly hosts: readonly string[];
  readonly metrics: MetricsRules;
  /** Nice value of the thread, 0 to 19, which matters when cores are scarce. */
  readonly nice: number;
  readonly rules: HttpRules;
  /** Folder for saved histories: that of the log; undefined without one. */
  readonly historyFolder: string | undefined;
}

/**
 * Rules that a reload may change. Whether TLS is on and client certificates are required stays
 * fixed.
 */
export interface HttpRules {
  /** Accepted tokens; undefined if none are required. */
  readonly tokens: readonly Token[] | undefined;
  /**
   * Maximum of requests per second for each token, or each address without tokens; Infinity for no
   * limit.
   */
  readonly requestsMax: number;
  /** Networks of proxies, whose connections begin with a PROXY header. */
  readonly proxyFrom: readonly string[] | undefined;
  readonly tls: TlsPolicy | undefined;
  /** All certificates of the server, including those of listeners. */
  readonly certificates: readonly ShownCertificate[];
}

export type { AcceptorQuestion, HttpAddress, OpenListener, ReloadOutcome };

/** Messages from the main thread. */
export type HttpOrder =
  /** Progress of the replay, 0 to 1. */
  | { order: "replayed"; share: number }
  /** Members of the group. */
  | ({ order: "group" } & GroupMembers)
  /** The server now accepts commands. */
  | { order: "serve"; listeners: readonly OpenListener[]; transport: string }
  /** An acceptor's answer to a question. */
  | { order: "answer"; answer: AcceptorAnswer }
  /** New rules. */
  | { order: "configure"; rules: HttpRules }
  /**
   * The configuration was reloaded. If this thread asked for it, `question` and `outcome` answer
   * that.
   */
  | { order: "reloaded"; successful: boolean; successAt: number; question?: number; outcome: ReloadOutcome }
  | { order: "scrubbed"; report: ScrubReport }
  /** Changes by hand that acceptors have seen. */
  | { order: "changes"; changes: readonly ManualChange[] }
  | { order: "stop" };

/** Messages to the main thread. */
export type HttpNews =
  /** Connections are taken, although the code that answers is still being loaded. */
  | { news: "bound" }
  | { news: "listening"; where: string }
  | { news: "failed"; code: string; message: string; address: HttpAddress }
  | { news: "log"; level: "info" | "warn" | "error"; message: string }
  /** A question for an acceptor. */
  | { news: "ask"; acceptor: number; question: AcceptorQuestion }
  /** A request to check the whole log now, or to pause checks. */
  | { news: "scrub"; pauses: boolean }
  /** A request to reload the configuration. */
  | { news: "reload"; question: number }
  | { news: "serving" }
  /** The thread has taken the last changes. */
  | { news: "more-changes" }
  | { news: "stopped" };

/** The thread's end of the message channel to the main thread. */
export interface HttpThreadPort {
  on(event: "message", listener: (order: HttpOrder) => void): unknown;
  postMessage(news: HttpNews): void;
}

/** Time limit for requests in progress at shutdown, and the interval of the check, ms. */
const STOP_MS_MAX = 3000;
const STOP_LOOK_MS = 5;
/** Time limit for saving histories at shutdown, ms: a slow disk must not delay the stop. */
const SAVE_MS_MAX = 1000;
const TOTALS_EACH_MS = 1000;
const PING_EACH_MS = 5000;
/** Rates and tube histories need a table at this interval, ms. */
const TUBES_EACH_MS = 10_000;
/** Minimum time between two logged errors, ms. */
const TELL_EACH_MS = 10_000;
/** The same between two reports of a wrong PROXY header. */
const TELL_HEADER_EACH_MS = 60_000;

const stateAtStart = ({ startedAtMs }: ServerFacts): ServerState => ({
  phase: "starting",
  replayed: 0,
  group: undefined,
  scrub: undefined,
  listeners: [],
  httpUrls: [],
  httpTokens: false,
  transport: "",
  certificates: [],
  reload: { successful: true, successAt: startedAtMs / 1000 },
  wrongTokens: 0,
  changesNotLogged: 0,
  connectionsRefused: 0,
  connectionsCutOff: 0,
  streams: 0,
});

const routesOf = (
  meter: RequestMeter,
  reloads: ReloadClient,
  { sessionRoutes }: Authentication,
): Parameters<typeof servedRoutes>[1] => ({
  health: [probeRoutes],
  metrics: [metricsRoutes(meter)],
  dashboard: [dashboardRoutes()],
  api: [
    eventRoutes(),
    sessionRoutes,
    healthRoutes,
    attentionRoutes,
    serverRoutes,
    reloadRoutes(reloads),
    auditRoutes,
    backupRoutes,
    groupRoutes,
    tubeRoutes,
    settingsRoutes,
    scheduleRoutes,
    batchRoutes,
    jobRoutes,
    putRoutes,
    reserveRoutes,
    leaseRoutes,
    browseRoutes,
    finishedRoutes,
    connectionRoutes,
    manageRoutes,
    manageJobRoutes,
    taskRoutes,
  ],
});

function backupsOf(
  { topology, facts }: HttpThreadData,
  tellError: (message: string) => void,
): Backups | undefined {
  const directory = facts.options["binlog"];
  if (topology.binlog === undefined || typeof directory !== "string") return undefined;
  const { version } = facts;
  const onBrokenOff = (reason: string): void => tellError(`a backup broke off: ${reason}`);
  return new Backups({ topology, directory, version, nowMs: monotonicMs, wallMs: Date.now, onBrokenOff });
}

export class HttpThread {
  readonly #data: HttpThreadData;
  readonly #port: HttpThreadPort;
  readonly #service: Service;
  readonly #state: ServerState;
  readonly #listeners: readonly HttpListener[];
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #loop: PortLoop;
  readonly #meter = new RequestMeter();
  readonly #reloads: ReloadClient;
  readonly #authentication: Authentication;
  readonly #limit: RequestLimit;
  readonly #proxied: ProxiedHttp;
  readonly #histories: SavedHistories | undefined;
  #cannotSave = false;
  #toldAtMs: number = Number.NEGATIVE_INFINITY;
  #headerToldAtMs: number = Number.NEGATIVE_INFINITY;

  /** `early` has a port, or undefined, for each address. */
  constructor(data: HttpThreadData, port: HttpThreadPort, early: readonly (EarlyPort | undefined)[]) {
    this.#data = data;
    this.#port = port;
    const { topology, facts, stats, metrics } = data;
    this.#state = stateAtStart(facts);
    this.#reloads = new ReloadClient((question) => port.postMessage({ news: "reload", question }));
    const { tokens, requestsMax, proxyFrom, tls, certificates } = data.rules;
    this.#state.certificates = certificates;
    this.#state.httpTokens = tokens !== undefined;
    this.#authentication = new Authentication(tokens, () => this.#state.wrongTokens++, certificateNames);
    this.#limit = new RequestLimit(requestsMax, monotonicMs);
    this.#proxied = new ProxiedHttp(proxyFrom, (why) => this.#onHeaderFailure(why));
    const core = new AcceptorCore({
      topology,
      acceptor: httpPort(topology),
      nowMs: monotonicMs,
      statsText: () => statsText(topology, stats, monotonicMs()),
      // Slot 0 belongs to the session that holds leased jobs.
      firstSlot: 1,
      // Own connections may use all extended commands, even if clients may not.
      extended: true,
    });
    this.#loop = new PortLoop(topology, core);
    const control = new ControlClient(core, this.#loop.wake);
    const wire = new WireClients(core, this.#loop.wake);
    const leases = new LeaseTable(monotonicMs);
    this.#service = {
      topology,
      facts,
      state: this.#state,
      core,
      control,
      tubes: new TubeCache(control, monotonicMs),
      tubeHistory: new TubeHistory(metrics.tubesMax),
      totals: new StatsHistory(control, Date.now),
      syncs: new SyncHistory(),
      liveness: new Liveness(control, monotonicMs),
      wire,
      bodies: new Bodies(wire, control, core.places),
      puts: new PutPool(wire, topology.shards),
      reservations: new Reservations(wire),
      leases,
      giveBacks: new GiveBacks(leases, control),
      keys: new IdempotencyKeys(monotonicMs),
      tasks: new TaskRegistry(control, Date.now),
      connections: new ConnectionClient(topology.acceptors, (acceptor, question) =>
        port.postMessage({ news: "ask", acceptor, question }),
      ),
      words: new ControlWords(topology.control),
      memory: memoryWords(topology),
      audit: new AuditLog(),
      scrub: (pauses) => port.postMessage({ news: "scrub", pauses }),
      backups: backupsOf(data, (message) => this.#tellError(message)),
      metrics,
      measured: new MeasuredTubes(metrics),
      nowMs: monotonicMs,
      wallMs: Date.now,
    };
    const { totals, tubeHistory } = this.#service;
    if (data.historyFolder !== undefined)
      this.#histories = new SavedHistories(data.historyFolder, totals, tubeHistory, Date.now);
    this.#listeners = this.#open(tls);
    for (const { api } of this.#listeners) this.#proxied.addTo(api);
    port.on("message", (order) => this.#obey(order));
    lowerPriority(data.nice);
    void this.#listen(early);
  }

  /**
   * Creates the applications of all addresses. The first one serves everything. Meters and budgets
   * cover all addresses together.
   */
  #open(tls: TlsPolicy | undefined): HttpListener[] {
    const { hosts, address, also } = this.#data;
    const meter = this.#meter;
    const routes = routesOf(meter, this.#reloads, this.#authentication);
    const room = new RequestBudget(BODY_BYTES_MAX);
    const answerRoom = new ResponseBudget(ANSWER_BYTES_MAX);
    const first: HttpAlso = { address, serves: SERVED, metricsPublic: false, tls: tls !== undefined };
    return [first, ...also].map((each) => ({
      address: each.address,
      isSecure: each.tls,
      api: createApp({
        service: this.#service,
        hosts: new Set(hosts),
        routes: servedRoutes(each.serves, routes),
        meter,
        authentication: this.#authentication,
        open: each.metricsPublic ? "metrics" : undefined,
        limit: this.#limit,
        connections: new ConnectionBudget({
          nowMs: monotonicMs,
          onRefused: () => this.#state.connectionsRefused++,
          warn: (message) => this.#port.postMessage({ news: "log", level: "warn", message }),
        }),
        room,
        answerRoom,
        tls: tls === undefined || !each.tls ? undefined : serverOptionsOf(tls),
        onCutOff: () => this.#state.connectionsCutOff++,
        onError: (message) => this.#tellError(message),
        onChange: (message) => this.#port.postMessage({ news: "log", level: "info", message }),
      }),
    }));
  }

  async #listen(early: readonly (EarlyPort | undefined)[]): Promise<void> {
    // Orders from before are obeyed first: a connection that waits may ask for what they change.
    await nextTurn();
    const listening: string[] = [];
    for (const [index, listener] of this.#listeners.entries()) {
      try {
        await listener.api.ready();
        if (this.#isStopping()) return;
        listening.push(await listen(listener, early[index]));
      } catch (error) {
        if (this.#isStopping()) return;
        const { code = "UNKNOWN", message } = error as NodeJS.ErrnoException;
        this.#port.postMessage({ news: "failed", code, message, address: listener.address });
        return;
      }
    }
    this.#state.httpUrls = listening;
    this.#port.postMessage({ news: "listening", where: listening.join(" and ") });
  }

  #isStopping(): boolean {
    return this.#state.phase === "stopping";
  }

  #noteChanges(changes: readonly ManualChange[]): void {
    for (const change of changes) this.#service.audit.note(change);
    this.#port.postMessage({ news: "more-changes" });
  }

  #onReloaded({ successful, successAt, question, outcome }: HttpOrder & { order: "reloaded" }): void {
    this.#state.reload = { successful, successAt };
    if (question !== undefined) this.#reloads.onAnswer(question, outcome);
  }

  #obey(order: HttpOrder): void {
    if (order.order === "replayed") this.#state.replayed = order.share;
    else if (order.order === "serve") this.#serve(order.listeners, order.transport);
    else if (order.order === "group") this.#state.group = { ...order, atMs: monotonicMs() };
    else if (order.order === "configure") this.#configure(order.rules);
    else if (order.order === "reloaded") this.#onReloaded(order);
    else if (order.order === "scrubbed") this.#state.scrub = order.report;
    else if (order.order === "changes") this.#noteChanges(order.changes);
    else if (order.order === "answer") this.#service.connections.onAnswer(order.answer);
    else void this.#stop();
  }

  #configure({ tokens, requestsMax, proxyFrom, tls, certificates }: HttpRules): void {
    this.#authentication.configure(tokens);
    this.#state.httpTokens = tokens !== undefined;
    this.#limit.configure(requestsMax);
    this.#proxied.configure(proxyFrom);
    this.#state.certificates = certificates;
    // Open connections keep the old context.
    for (const { api, isSecure } of this.#listeners)
      if (tls !== undefined && isSecure)
        (api.server as Partial<SecureServer>).setSecureContext?.(contextOf(tls));
  }

  #serve(listeners: readonly OpenListener[], transport: string): void {
    const { topology, totals, tubes, tubeHistory, syncs, liveness, leases } = this.#service;
    Object.assign(this.#state, { phase: "serving", replayed: 1, listeners, transport });
    // Starts the loop, whose first sleep lets shards ring its doorbell.
    this.#loop.wake();
    this.#restoreHistories();
    this.#each(TOTALS_EACH_MS, () => totals.ask());
    this.#each(TUBES_EACH_MS, async () => tubeHistory.note(await tubes.fresh(), Date.now()));
    if (topology.binlog !== undefined)
      this.#each(SYNC_STEP_SECONDS * 1000, () => syncs.note(syncCountsOf(topology), Date.now()));
    this.#each(TUBES_EACH_MS, () => measureTubes(this.#service));
    this.#each(TUBES_EACH_MS, () => leases.sweep());
    this.#each(PING_EACH_MS, () => liveness.ping());
    this.#port.postMessage({ news: "serving" });
  }

  /** Starts new histories if they can't be restored: nothing else depends on them. */
  #restoreHistories(): void {
    const histories = this.#histories;
    if (histories === undefined) return;
    try {
      histories.restore();
    } catch (error) {
      this.#tellError(`the saved histories are ignored: ${(error as Error).message}`);
    }
    this.#timers.push(setInterval(() => void this.#saveHistories(), SAVE_EACH_MS));
  }

  async #saveHistories(): Promise<void> {
    try {
      await this.#histories?.save();
      this.#cannotSave = false;
    } catch (error) {
      // Reports this once, until it works again: a full disk has its own alerts.
      if (!this.#cannotSave) this.#tellError(`cannot save the histories: ${(error as Error).message}`);
      this.#cannotSave = true;
    }
  }

  #each(ms: number, act: () => unknown): void {
    const quietly = async (): Promise<void> => {
      try {
        await act();
      } catch (error) {
        this.#tellError((error as Error).message);
      }
    };
    void quietly();
    this.#timers.push(setInterval(() => void quietly(), ms));
  }

  /** Answers the requests in progress, ends waits and then closes the sockets. */
  async #stop(): Promise<void> {
    this.#state.phase = "stopping";
    for (const timer of this.#timers) clearInterval(timer);
    this.#service.reservations.stop();
    this.#proxied.stop();
    const closed = Promise.all(this.#listeners.map(({ api }) => api.close()));
    const untilMs = monotonicMs() + STOP_MS_MAX;
    while (this.#meter.underWay > 0 && monotonicMs() < untilMs) await sleep(STOP_LOOK_MS);
    for (const { api } of this.#listeners) api.server.closeAllConnections();
    await closed;
    await Promise.race([this.#saveHistories(), sleep(SAVE_MS_MAX, undefined, { ref: false })]);
    this.#port.postMessage({ news: "stopped" });
  }

  #onHeaderFailure(why: string): void {
    this.#service.core.counters[Counter.RejectedHeader]!++;
    const nowMs = monotonicMs();
    if (nowMs < this.#headerToldAtMs + TELL_HEADER_EACH_MS) return;
    this.#headerToldAtMs = nowMs;
    const what = `http: a connection was closed: ${why}, and http.proxy-from names its address`;
    this.#port.postMessage({
      news: "log",
      level: "warn",
      message: `${what} (reported once a minute at most)`,
    });
  }

  #tellError(message: string): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#toldAtMs < TELL_EACH_MS) return;
    this.#toldAtMs = nowMs;
    this.#port.postMessage({ news: "log", level: "error", message: `http: ${message}` });
  }
}
