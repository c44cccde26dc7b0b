// The main thread: options, start, listening, supervision, shutdown. It handles no client traffic.

import { randomBytes, randomInt } from "node:crypto";
import { hostname, machine, version as osVersion } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { isatty } from "node:tty";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Logger } from "pino";
import type { AcceptorNews, AcceptorSettings, TransportKind } from "../acceptor/acceptor.ts";
import type { AccessRules, ShownCertificate, TlsPolicy } from "../acceptor/admission/listener-policy.ts";
import type { ProcessFacts } from "../acceptor/state/stats-text.ts";
import type { BinlogData } from "../binlog/binlog-runtime.ts";
import { sizeText } from "../config/quantity.ts";
import type { LogHostData } from "../host/thread.ts";
import {
  type AcceptorHandle,
  type BinlogThreadHandle,
  HttpThreadHandle,
  type OnBinlogNews,
  type RecoveryChannels,
  recoveryChannels,
  residentBinlog,
  startAcceptors,
  startBinlog,
  startShard,
} from "../host/threads.ts";
import type { HttpAddress, HttpNews, HttpRules, HttpThreadData, ReloadOutcome } from "../http/http-thread.ts";
import { type Waiting, waitingOf } from "../loop/waiting-policy.ts";
import { binlogBell, ControlWord, createTopology, memoryWords, type Topology } from "../message/topology.ts";
import { turnCountsOf } from "../message/turn-counters.ts";
import { CONNECTION_COUNTS_BYTES } from "../ring/connection-counts.ts";
import { ControlWords } from "../ring/control-words.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { JobIds } from "../ring/job-ids.ts";
import { LogWord } from "../ring/log-words.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import type { ShardRuntimeOptions } from "../shard/shard-runtime.ts";
import { FrozenPorts } from "./group/frozen-ports.ts";
import { checkGroupOptions, GroupRole } from "./group/group-role.ts";
import { BinlogSupervisor } from "./lifecycle/binlog-supervisor.ts";
import { descriptorLimit } from "./lifecycle/descriptor-limit.ts";
import { MemoryWatch } from "./lifecycle/memory-watch.ts";
import { Reloader } from "./lifecycle/reload.ts";
import { switchUser } from "./lifecycle/switch-user.ts";
import { notifySystemd } from "./lifecycle/systemd-notify.ts";
import {
  certificateOf,
  certificatesOf,
  expiryWarnings,
  readAccessRules,
  readTls,
} from "./listeners/access-rules.ts";
import { furtherAddress, type Listen, listenAddress, probeAddress } from "./listeners/listen-address.ts";
import { Listening } from "./listeners/listening.ts";
import { LineSink, nonBlockingWriter } from "./logging/line-sink.ts";
import { createLog, type Diagnostics, droppedWords } from "./logging/log.ts";
import { describeHttpAddress } from "./options/http-address.ts";
import { unchangeableTls } from "./options/http-settings.ts";
import { changedListeners } from "./options/listener-settings.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import { type Exit, type Options, parseOptions } from "./options/options.ts";
import { type ChosenPlacement, choosePlacement, type LogPlacementOptions } from "./options/placement.ts";
import type { Settings } from "./options/settings.ts";
import { usableCores } from "./options/usable-cores.ts";
import { PROGRAM, VERSION } from "./options/version.ts";

const RING_BYTES = 1 << 20;
/** Time limit of an orderly shutdown. */
const STOP_MS_MAX = 4000;
/** The same before any client is served, when the log has only been read. */
const STOP_LOADING_MS_MAX = 500;
/** Time that an exit waits for the last lines of output, and for the binlog thread. */
const LAST_LINES_MS = 200;
const LOG_THREAD_MS = 200;
const EXPIRY_LOOK_MS = 12 * 3_600_000;
const STDOUT = 1;
const STDERR = 2;

/** Runs the server, or prints what the options ask for. */
export async function main(): Promise<void> {
  const args = process.argv.slice(2);
  const read = (): Options | Exit => parseOptions(args, PROGRAM, process.env);
  const options = read();
  if ("exitCode" in options) {
    process.stdout.write(options.stdout);
    process.stderr.write(options.stderr);
    process.exitCode = options.exitCode;
    return;
  }
  const diagnostics = await createLog(isatty(STDERR), options.logLevel, nonBlockingWriter(STDERR));
  let server: Server | undefined;
  try {
    leaveRemovedDirectory(options);
    server = new Server(options, diagnostics, read);
    await server.run();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    diagnostics.log.fatal(error.message);
    if (server !== undefined) await server.exit(error.exitCode);
    await diagnostics.lines.drained(LAST_LINES_MS);
    process.exit(error.exitCode);
  }
}

class Server {
  readonly #options: Options;
  readonly #log: Logger;
  readonly #diagnostics: LineSink;
  /** Output of -V and -VV; undefined without them. */
  readonly #verbose: LineSink | undefined;
  readonly #topology: Topology;
  readonly #placement: ChosenPlacement;
  readonly #control: ControlWords;
  readonly #reloader: Reloader;
  /** The last requested reload. */
  #reloaded: Promise<void> = Promise.resolve();
  readonly #onDeath = (thread: string, error: Error | undefined): void => this.#threadDied(thread, error);
  #acceptors: AcceptorHandle[] = [];
  #rules: AccessRules;
  #tokenFile: string | undefined;
  #httpTls: TlsPolicy | undefined;
  #httpRequestsMax: number;
  readonly #connectionCounts: AcceptorSettings["connectionCounts"];
  #binlog: BinlogSupervisor | undefined;
  #binlogThread: BinlogThreadHandle | undefined;
  readonly #listening = new Listening(
    () => this.#acceptors,
    (line) => this.#verbose?.write(line),
  );
  #expiryTimer: NodeJS.Timeout | undefined;
  readonly #memory: MemoryWatch;
  #http: HttpThreadHandle | undefined;
  readonly #instanceId = instanceId();
  readonly #startedAtMs = monotonicMs();
  #group: GroupRole | undefined;
  #serving = false;
  #stopping = false;
  #exiting = false;
  /** Exit code of an orderly shutdown. */
  #exitCode = 0;

  /** `reread` reads the options again, for a reload. */
  constructor(options: Options, { log, lines }: Diagnostics, reread: () => Options | Exit) {
    this.#options = options;
    this.#reloader = new Reloader(options, reread, (next) => this.#prepare(next));
    this.#log = log;
    this.#diagnostics = lines;
    if (options.verbose > 0) {
      const droppedLine = (count: number): string => `${droppedWords(count, "of -V")}\n`;
      this.#verbose = new LineSink(nonBlockingWriter(STDOUT), droppedLine);
    }
    this.#tokenFile = options.tokenFile;
    this.#rules = readAccessRules(options, options.listen !== "none");
    this.#httpTls = readTls("http", options.httpTls);
    this.#httpRequestsMax = options.httpRequestsMax;
    this.#connectionCounts = connectionCountsFor(options);
    const { shards, acceptors, jobBytesMax, binlog, binlogBytes, fsyncMs } = options;
    this.#placement = choosePlacement({ ...options, log: logPlacementOf(options) }, usableCores());
    if (binlog !== undefined && options.logPlacement === "together" && !this.#placement.hasResidentLog) {
      throw new OperatorError(
        "--log-placement together: a log lives with the others where one thread serves, and in no group; add --placement together --threads 1",
        ExitCode.Usage,
      );
    }
    this.#topology = createTopology({
      shards,
      acceptors,
      http: options.http !== undefined,
      placement: this.#placement.placement,
      protocol: options.protocol,
      threads: this.#placement.threads,
      jobBytesMax,
      ringBytes: RING_BYTES,
      moves: options.migration,
      ...(binlog === undefined
        ? {}
        : {
            binlog: {
              repliesWaitFor: fsyncMs === 0 ? LogWord.Synced : LogWord.Written,
              segmentBytes: binlogBytes,
              isResident: this.#placement.hasResidentLog,
              ...(options.replicate === undefined
                ? {}
                : { group: { repliesWait: options.replicateWait !== "nothing" } }),
            },
          }),
    });
    this.#control = new ControlWords(this.#topology.control);
    new JobIds(this.#control.words, ControlWord.JobIds).reset(1);
    this.#memory = new MemoryWatch({
      words: memoryWords(this.#topology),
      nowMs: monotonicMs,
      warn: (message) => log.warn(message),
      info: (message) => log.info(message),
    });
  }

  /** Starts in beanstalkd's order: listen, switch the user, load the log. Early clients wait. */
  async run(): Promise<void> {
    const options = this.#options;
    for (const notice of options.notices) this.#log.warn(notice);
    checkGroupOptions(options);
    this.#noteAcceptors();
    this.#warnOfExpiry();
    this.#memory.configure(options.memoryBytesMax);
    this.#verbose?.write(`pid ${process.pid}\n`);
    this.#handleSignals();
    const addresses = await this.#addresses();
    const http = options.http === undefined ? undefined : await this.#startHttp(options.http);
    // The error is handled below, where the promise is awaited.
    http?.listening.catch(() => {});
    const recovery = recoveryChannels(this.#topology);
    const shards = this.#startShards(recovery.toShards);
    const log = await this.#residentLog(recovery.toBinlog);
    const transport = await this.#startAcceptors(recovery.toShards, log?.data);
    const { binlog, replicate } = options;
    // In a group, only the server that serves clients may have its port open.
    let listeners = replicate === undefined ? await this.#listen(addresses) : [];
    const loadLog =
      binlog === undefined ? undefined : await this.#startBinlog(binlog, recovery.toBinlog, log);
    // By now all threads have loaded their code, which the new user may not be allowed to read.
    await Promise.all(shards);
    if (options.user !== undefined) {
      await http?.listening;
      switchUser(options.user);
    }
    if (this.#stopping) return;
    this.#group?.start();
    await loadLog?.();
    await this.#group?.mayServe;
    if (this.#stopping) return;
    if (replicate !== undefined) listeners = await this.#listen(addresses);
    const where = listeners.join(", ");
    this.#serving = true;
    for (const acceptor of this.#acceptors) acceptor.serve();
    this.#http?.tell({ order: "serve", listeners, transport });
    this.#group?.serves();
    if (replicate !== undefined) new FrozenPorts(this.#topology, this.#acceptors, this.#log);
    const threads = `${plural(options.shards, "shard")} and ${plural(options.acceptors, "acceptor")} ${this.#placement.why}`;
    // Clients of the protocol are served already: the http thread has the most code to load.
    const httpWhere = await http?.listening;
    const kept = options.binlog === undefined ? "" : `, log in ${options.binlog}`;
    const { memoryBytesMax } = options;
    const limited =
      memoryBytesMax === Number.POSITIVE_INFINITY ? "" : `, at most ${sizeText(memoryBytesMax)} of jobs`;
    notifySystemd("ready", `serves on ${where}`);
    this.#log.info(
      `runnerbean ${VERSION} serves on ${where}${httpWhere === undefined ? "" : ` and ${httpWhere}`} with ${threads}, ${transport}${kept}${limited}; stop it with Ctrl-C or kill ${process.pid}`,
    );
  }

  /** Measured by `--scenario threads` of the bench. */
  #noteAcceptors(): void {
    const { acceptors } = this.#options;
    const { cores, threads } = this.#placement;
    if (Math.min(acceptors, threads) === 1 || Math.min(acceptors, threads) + 1 <= cores) return;
    this.#log.info(
      `${plural(acceptors, "acceptor")} on ${plural(cores, "core")}: more acceptors than free cores, each in a thread, make the server slower; try without --acceptors`,
    );
  }

  get #waiting(): Waiting {
    const { cores, threads, hasResidentLog } = this.#placement;
    return waitingOf({ cores, threads, hasLog: this.#options.binlog !== undefined && !hasResidentLog });
  }

  #startShards(recovery: RecoveryChannels["toShards"]): Promise<unknown>[] {
    const topology = this.#topology;
    const waiting = this.#waiting;
    const alone = topology.hosts.filter(({ acceptors }) => acceptors.length === 0);
    return alone
      .flatMap(({ shards }) => shards)
      .map((shard) => {
        const port = recovery[shard];
        return startShard({ ...this.#shardOptions(shard, port), recovery: port, waiting }, this.#onDeath);
      });
  }

  #shardOptions(shard: number, recovery: MessagePort | undefined): ShardRuntimeOptions {
    const { compat, tubes } = this.#options;
    return { topology: this.#topology, shard, quoteNames: compat === "1.13", recovery, tubes };
  }

  get #processFacts(): ProcessFacts {
    const { compat, binlogBytes } = this.#options;
    return {
      version: VERSION,
      pid: process.pid,
      instanceId: this.#instanceId,
      hostname: hostname(),
      os: osVersion(),
      platform: machine(),
      bareFacts: compat === "1.12",
      binlogMaxBytes: binlogBytes,
      startedAtMs: this.#startedAtMs,
    };
  }

  /** Starts the http thread, which reports health and progress once its code is loaded. */
  async #startHttp(address: HttpAddress): Promise<{ listening: Promise<string> }> {
    const { httpHosts, metricsTubesMax, metricsTubes, compat, binlog, fsyncMs, binlogBytes, logLevel } =
      this.#options;
    const data: HttpThreadData = {
      topology: this.#topology,
      facts: {
        version: VERSION,
        instanceId: this.#instanceId,
        hostname: hostname(),
        pid: process.pid,
        startedAtMs: Date.now() - process.uptime() * 1000,
        startedAtMonotonicMs: this.#startedAtMs,
        descriptorsMax: descriptorLimit(),
        options: {
          compat,
          binlog: binlog ?? null,
          // JSON has no Infinity.
          fsyncMs: Number.isFinite(fsyncMs) ? fsyncMs : null,
          binlogBytes,
          placement: this.#placement.placement,
          logLevel,
        },
      },
      stats: this.#processFacts,
      address,
      also: this.#options.httpAlso,
      hosts: httpHosts,
      metrics: { tubesMax: metricsTubesMax, tubes: metricsTubes },
      nice: this.#options.httpNice,
      rules: this.#httpRules,
    };
    const onNews = (news: HttpNews): void => {
      if (news.news === "log") this.#log[news.level](news.message);
      else if (news.news === "ask") this.#acceptors[news.acceptor]?.ask(news.question);
      else if (news.news === "reload") this.#reload("HTTP", news.question);
    };
    const cannot = (where: HttpAddress, why: string): OperatorError => {
      const other = where === address ? "--http HOST:PORT" : "listen of [[http.also]]";
      return new OperatorError(
        `cannot listen for HTTP on ${describeHttpAddress(where)}: ${why}; choose another address: ${other}`,
        ExitCode.Listen,
      );
    };
    for (const where of [address, ...this.#options.httpAlso.map((also) => also.address)]) {
      if ("path" in where || where.port === 0) continue;
      // Check before any client is served: a failure later would cut them off.
      await probeAddress(where.host, where.port).catch((error: Error) => {
        throw cannot(where, error.message);
      });
    }
    const handle = new HttpThreadHandle(data, this.#onDeath, onNews);
    this.#http = handle;
    const listening = async (): Promise<string> => {
      const news = await handle.listening;
      if (news.news === "listening") return news.where;
      // The address from the other thread is a copy, so compare its text.
      const where = news.news === "failed" ? news.address : address;
      const isFirst = describeHttpAddress(where) === describeHttpAddress(address);
      throw cannot(isFirst ? address : where, news.news === "failed" ? news.message : news.news);
    };
    return { listening: listening() };
  }

  /** Resolves with the name of the transport once all acceptors take orders. */
  async #startAcceptors(
    recovery: RecoveryChannels["toShards"],
    log: LogHostData | undefined,
  ): Promise<TransportKind> {
    const topology = this.#topology;
    const { verbose, transport } = this.#options;
    const facts = this.#processFacts;
    const onNews = (news: AcceptorNews): void => this.#onNews(news);
    const descriptorsMax = descriptorLimit();
    const waiting = this.#waiting;
    const settings = {
      topology,
      facts,
      verbose,
      descriptorsMax,
      transport,
      waiting,
      rules: this.#rules,
      connectionCounts: this.#connectionCounts,
    };
    this.#acceptors = topology.hosts
      .flatMap(({ acceptors, shards }, host) => {
        if (acceptors.length === 0) return [];
        const residents = shards.map((shard) => this.#shardOptions(shard, recovery[shard]));
        const handles = startAcceptors({ ...settings, host, residents, log }, this.#onDeath, onNews);
        return acceptors.map((acceptor, index) => ({ acceptor, handle: handles[index]! }));
      })
      .sort((a, b) => a.acceptor - b.acceptor)
      .map(({ handle }) => handle);
    const refusals: string[] = [];
    for (const news of await Promise.all(this.#acceptors.map((acceptor) => acceptor.ready()))) {
      if (news.news === "failed") {
        throw new OperatorError(
          `--transport io_uring: ${news.message}; --transport libuv works everywhere`,
          ExitCode.Transport,
        );
      }
      if (news.news === "ready" && news.refusal !== undefined) refusals.push(news.refusal);
    }
    const refused = refusals.length;
    if (refused > 0) {
      const where =
        refused < topology.acceptors ? `by ${refused} of ${topology.acceptors} acceptors` : "here";
      this.#log.info(
        `io_uring can't be had ${where} (${refusals[0]}): libuv serves instead and takes a third more CPU; to choose it without this line: --transport libuv`,
      );
    }
    return transport === "libuv" || refused === topology.acceptors ? "libuv" : "io_uring";
  }

  #binlogData(directory: string, recovery: RecoveryChannels["toBinlog"]): BinlogData {
    const { binlogBytes, fsyncMs, salvage } = this.#options;
    return {
      topology: this.#topology,
      directory,
      group: undefined,
      segmentBytes: binlogBytes,
      syncEvery: fsyncMs === Number.POSITIVE_INFINITY ? "never" : fsyncMs,
      salvage,
      recovery,
    };
  }

  /** Returns a log for the serving thread; undefined if it has its own thread or there is none. */
  async #residentLog(recovery: RecoveryChannels["toBinlog"]): Promise<ColocatedBinlog | undefined> {
    const { binlog } = this.#options;
    if (binlog === undefined || !this.#placement.hasResidentLog) return undefined;
    const supervisor = await this.#supervise(binlog);
    const resident = residentBinlog(this.#binlogData(binlog, recovery), (news) =>
      this.#onBinlogNews(supervisor, news),
    );
    return { ...resident, supervisor };
  }

  #supervise(directory: string): Promise<BinlogSupervisor> {
    return BinlogSupervisor.create(
      { log: this.#log, lines: this.#diagnostics },
      directory,
      (exitCode) => void this.exit(exitCode),
    );
  }

  #onBinlogNews(supervisor: BinlogSupervisor, news: Parameters<OnBinlogNews>[0]): void {
    if (news.news === "progress")
      this.#http?.tell({ order: "replayed", share: news.doneBytes / Math.max(1, news.totalBytes) });
    supervisor.onNews(news);
  }

  /**
   * Resolves when the binlog thread is ready, with a function that loads the log. That resolves
   * when every job of the log is in its shard.
   */
  async #startBinlog(
    directory: string,
    recovery: RecoveryChannels["toBinlog"],
    resident: ColocatedBinlog | undefined,
  ): Promise<() => Promise<void>> {
    const { supervisor, handle } = resident ?? (await this.#startBinlogThread(directory, recovery));
    this.#binlogThread = handle;
    await handle.loaded;
    return () => {
      this.#binlog = supervisor;
      handle.open();
      return supervisor.recovered;
    };
  }

  async #startBinlogThread(
    directory: string,
    recovery: RecoveryChannels["toBinlog"],
  ): Promise<{ supervisor: BinlogSupervisor; handle: BinlogThreadHandle }> {
    const supervisor = await this.#supervise(directory);
    const group = this.#startGroup();
    const handle = startBinlog(
      { ...this.#binlogData(directory, recovery), group },
      (thread, error) => {
        if (supervisor.ended && error === undefined) return;
        // During a shutdown too, which would otherwise wait forever for the thread's last message.
        this.#stopping = false;
        this.#threadDied(thread, error);
      },
      (news) => this.#onBinlogNews(supervisor, news),
    );
    return { supervisor, handle };
  }

  /** Returns the listen addresses, each with a flag for TLS. */
  async #addresses(): Promise<[listen: Listen, isTls: boolean][]> {
    const { listen, listeners } = this.#options;
    if (listen === "none" && listeners.length === 0)
      throw new OperatorError("-l none needs a [[listener]] in the file of --config", ExitCode.Usage);
    const notice = (text: string): void => this.#log.warn(text);
    const addresses: [Listen, boolean][] = [];
    if (listen !== "none") addresses.push([await listenAddress(this.#options, process.env, notice), false]);
    for (const listener of listeners)
      addresses.push([await furtherAddress(listener, notice), listener.cert !== undefined]);
    return addresses;
  }

  /** Starts the group's thread, if there is one, and returns the log's port to it. */
  #startGroup(): MessagePort | undefined {
    const { replicate } = this.#options;
    if (replicate === undefined) return undefined;
    const { port1, port2 } = new MessageChannel();
    this.#group = new GroupRole({
      options: this.#options,
      topology: this.#topology,
      port: port1,
      log: this.#log,
      onDeath: this.#onDeath,
      onEnd: (exitCode) => {
        // Unacknowledged changes may not be answered any more.
        this.#control.set(ControlWord.BinlogEnded);
        void this.exit(exitCode);
      },
      onYield: () => {
        this.#exitCode = ExitCode.LeadLost;
        void this.#stop("yield");
      },
      onMembers: ({ group, node, members }) => this.#http?.tell({ order: "group", group, node, members }),
    });
    return port2;
  }

  /** Makes every acceptor listen on all addresses, and returns their descriptions in order. */
  async #listen(addresses: readonly [Listen, boolean][]): Promise<string[]> {
    const where: string[] = [];
    for (const [listen, isTls] of addresses) where.push(await this.#listening.listen(listen, isTls));
    return where;
  }

  #onNews(news: AcceptorNews): void {
    if (news.news === "log") this.#log[news.level](news.message);
    else if (news.news === "verbose") {
      for (const line of news.lines) this.#verbose?.write(`${line}\n`);
      if (news.dropped > 0) this.#verbose?.write(`${droppedWords(news.dropped, "of -V")}\n`);
    } else if (news.news === "connections" || news.news === "closed" || news.news === "connection-ended")
      this.#http?.tell({ order: "answer", answer: news });
    else if (news.news === "failed") this.#log.error(`listening failed: ${news.message}`);
  }

  #threadDied(thread: string, error: Error | undefined): void {
    // An orderly shutdown would wait for it forever.
    if (this.#exiting || (this.#stopping && error === undefined)) return;
    // From now on, acknowledge nothing that might be lost with the thread.
    this.#control.set(ControlWord.BinlogEnded);
    this.#stopping = true;
    this.#log.fatal(
      { err: error },
      `the thread "${thread}" died; the server ends, because a part of it is worse than none`,
    );
    void this.exit(ExitCode.ThreadDied);
  }

  /** Ends the process even if the log is not closed. */
  async exit(exitCode: number): Promise<never> {
    if (this.#exiting) return new Promise(() => {});
    this.#exiting = true;
    this.#stopping = true;
    this.#listening.removeSocketFiles();
    return await this.#endProcess(exitCode);
  }

  /**
   * Ends the process, the binlog thread first: acceptors that share a listening descriptor each
   * close its number when Node terminates them, and by then a log file could have that number. The
   * waits for that thread and for the last lines of output are short.
   */
  async #endProcess(exitCode: number): Promise<never> {
    await Promise.race([this.#binlogThread?.end(), sleep(LOG_THREAD_MS)]);
    await Promise.all([this.#diagnostics.drained(LAST_LINES_MS), this.#verbose?.drained(LAST_LINES_MS)]);
    process.exit(exitCode);
  }

  #handleSignals(): void {
    process.on("SIGUSR1", () => {
      this.#control.set(ControlWord.Draining);
      this.#log.info("SIGUSR1: draining; new jobs are refused from now on");
    });
    // Without a file, there is nothing to reload, and SIGHUP ends the process as usual.
    const { config, tokenFile } = this.#options;
    if ((config ?? tokenFile) !== undefined) process.on("SIGHUP", () => this.#reload("SIGHUP"));
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void this.#stop(signal));
  }

  /** Reloads run one after another, in the order of the requests. */
  #reload(by: string, question?: number): void {
    this.#reloaded = this.#reloaded.then(() => this.#reloadNow(by, question));
  }

  /** Applies all or nothing: with any fault, everything stays as it was. */
  async #reloadNow(by: string, question?: number): Promise<void> {
    // Before it serves, "ready" would end the start too early.
    if (this.#serving) notifySystemd("reloading");
    const outcome = await this.#readAgain(by);
    if (this.#serving) notifySystemd("ready");
    const { lastSuccessful: successful, lastSuccessAt: successAt } = this.#reloader;
    const asked = question === undefined ? {} : { question };
    this.#http?.tell({ order: "reloaded", successful, successAt, ...asked, outcome });
  }

  async #readAgain(by: string): Promise<ReloadOutcome> {
    try {
      const { changed, needsRestart } = await this.#reloader.reload();
      const rest = needsRestart.length === 0 ? "" : `; needs a restart: ${needsRestart.join(", ")}`;
      this.#log.info(`${by}: configuration read again; changed: ${changed.join(", ") || "nothing"}${rest}`);
      return { changed, needsRestart };
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#log.error(`${by}: everything stays as it was: ${error.message}`);
      return { faults: error.message };
    }
  }

  #prepare(next: Settings): () => void {
    const listeners = changedListeners(this.#options.listeners, next.listeners);
    const rules = readAccessRules({ ...next, listeners }, this.#options.listen !== "none");
    const isSame = unchangeableTls(next.httpTls) === unchangeableTls(this.#options.httpTls);
    const httpTls = isSame ? readTls("http", next.httpTls) : this.#httpTls;
    return () => {
      this.#log.level = next.logLevel;
      this.#rules = rules;
      this.#tokenFile = next.tokenFile;
      this.#memory.configure(next.memoryBytesMax);
      for (const acceptor of this.#acceptors) acceptor.configure(rules);
      this.#httpTls = httpTls;
      this.#httpRequestsMax = next.httpRequestsMax;
      this.#http?.tell({ order: "configure", rules: this.#httpRules });
      this.#warnOfExpiry();
    };
  }

  /** Over HTTP, a token file means that every client needs a token. */
  get #httpRules(): HttpRules {
    return {
      tokens: this.#tokenFile === undefined ? undefined : this.#rules.tokens,
      requestsMax: this.#httpRequestsMax,
      tls: this.#httpTls,
      certificates: this.#certificates,
    };
  }

  /** All certificates that the server presents. */
  get #certificates(): ShownCertificate[] {
    const ofHttp = this.#httpTls === undefined ? [] : [certificateOf("http", this.#httpTls)];
    return [...certificatesOf(this.#rules), ...ofHttp];
  }

  /** Warns of certificates that expire soon, and again every twelve hours. */
  #warnOfExpiry(): void {
    clearTimeout(this.#expiryTimer);
    for (const warning of expiryWarnings(this.#certificates, Date.now())) this.#log.warn(warning);
    this.#expiryTimer = setTimeout(() => this.#warnOfExpiry(), EXPIRY_LOOK_MS).unref();
  }

  async #stop(signal: string): Promise<void> {
    if (this.#stopping) {
      if (this.#exiting) process.exit(1);
      return this.exit(1);
    }
    this.#stopping = true;
    this.#log.info(`${signal}: stopping; once more to stop at once`);
    notifySystemd("stopping", `${signal}: stopping`);
    this.#listening.removeSocketFiles();
    if (!this.#serving) {
      setTimeout(() => {
        this.#log.info("stopped before the log was loaded");
        void this.exit(0);
      }, STOP_LOADING_MS_MAX);
      return this.#end();
    }
    const late = setTimeout(() => {
      this.#log.warn("some clients did not take their replies in time; their connections are cut");
      void this.#end();
    }, STOP_MS_MAX);
    await Promise.all([this.#http?.stop(), ...this.#acceptors.map((acceptor) => acceptor.stop())]);
    clearTimeout(late);
    await this.#end();
  }

  /** Makes the log durable, closes it and ends the process. */
  async #end(): Promise<void> {
    if (this.#binlog !== undefined) {
      this.#control.set(ControlWord.BinlogStop);
      new Doorbell(new Int32Array(this.#topology.doorbells), binlogBell(this.#topology)).ring();
      await this.#binlog.closed;
      await this.#group?.drained();
    }
    if (this.#exiting) return;
    this.#exiting = true;
    this.#log.debug({ threads: turnCountsOf(this.#topology) }, "what the threads did");
    this.#log.info("stopped");
    await this.#endProcess(this.#exitCode);
  }
}

function logPlacementOf(options: Options): LogPlacementOptions | undefined {
  const { binlog, fsyncMs, logPlacement, replicate } = options;
  if (binlog === undefined) return undefined;
  return {
    placement: logPlacement,
    repliesWaitForSync: fsyncMs === 0,
    isInGroup: replicate !== undefined,
  };
}

/** Leaves a removed working directory, where no thread can start; refuses relative paths then. */
function leaveRemovedDirectory({ binlog, listen }: Options): void {
  try {
    process.cwd();
  } catch {
    for (const path of [binlog, /^unix:(.+)/.exec(listen)?.[1]]) {
      if (path === undefined || path.startsWith("/")) continue;
      throw new OperatorError(
        `the working directory has been removed, so ${path} leads nowhere: give a path that begins with /`,
        ExitCode.Usage,
      );
    }
    process.chdir("/");
  }
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

interface ColocatedBinlog {
  readonly data: LogHostData;
  readonly handle: BinlogThreadHandle;
  readonly supervisor: BinlogSupervisor;
}

/** Counts connections from the start if a reload may limit them later. */
function connectionCountsFor({ config, limits }: Options): AcceptorSettings["connectionCounts"] {
  const isLimited = Math.min(limits.connections, limits.perAddress) < Number.POSITIVE_INFINITY;
  if (config === undefined && !isLimited) return undefined;
  return { buffer: new SharedArrayBuffer(CONNECTION_COUNTS_BYTES), seed: randomInt(2 ** 31) };
}

/** Returns 16 hex digits that no parser takes for a number: not all digits, and not like 12e3. */
function instanceId(): string {
  for (;;) {
    const id = randomBytes(8).toString("hex");
    if (!/^[0-9]+(e[0-9]+)?$/.test(id)) return id;
  }
}
