// The main thread: options, start, listening, supervision, shutdown. It handles no client traffic.

import { setTimeout as sleep } from "node:timers/promises";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Logger } from "pino";
import type { AcceptorNews, TransportKind } from "../acceptor/acceptor.ts";
import type { ProcessFacts } from "../acceptor/state/stats-text.ts";
import { printableLines } from "../base/text.ts";
import { type Scrub, scrubOf } from "../binlog/scrub.ts";
import { sizeText } from "../config/setting.ts";
import type { HttpAddress, OpenListener } from "../http/http-thread.ts";
import { changeText, type ManualChange } from "../message/manual-change.ts";
import {
  binlogBell,
  ControlWord,
  memoryWords,
  type Origin,
  originsOf,
  type Topology,
} from "../message/topology.ts";
import { turnCountsOf } from "../message/turn-counters.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { ControlWords, JobIds } from "../ring/shared-words.ts";
import {
  type AcceptorHandle,
  type BinlogThreadHandle,
  type HttpThreadHandle,
  type RecoveryChannels,
  recoveryChannels,
} from "../threads/start-threads.ts";
import { beginColdPhase } from "./lifecycle/cold-phase.ts";
import { checkGroupOptions, GroupRole } from "./lifecycle/group-role.ts";
import { MemoryWatch, memoryGiver } from "./lifecycle/memory.ts";
import { loadTimeZonesSoon, notifySystemd, onSigusr1, switchUser } from "./lifecycle/process.ts";
import { furtherAddress, type Listen, listenAddress } from "./listeners/listen-address.ts";
import { FrozenPorts, Listening } from "./listeners/listening.ts";
import {
  type BinlogSupervisor,
  type LogStartOptions,
  logInThread,
  residentLog,
  type StartedLog,
} from "./log-start.ts";
import {
  createLog,
  type Diagnostics,
  droppedWords,
  fatalLine,
  LineSink,
  logFormOf,
  nonBlockingWriter,
} from "./options/log.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import { type Exit, type Options, parseOptions } from "./options/options.ts";
import { PROGRAM, VERSION } from "./options/program.ts";
import { Reloading } from "./reloading.ts";
import { type ChosenPlacement, placementFor, processFactsOf, topologyFor } from "./server-plan.ts";
import { ServingThreads } from "./serving-threads.ts";
import { type StartedHttp, startHttp } from "./start-http.ts";

// Relay of changes by hand from the acceptors to the log and to the audit of the HTTP thread.

/** As many as the HTTP thread keeps. */
const WAITING_MAX = 500;

class AuditRelay {
  readonly #say: (line: string) => void;
  readonly #toHttp: ((changes: readonly ManualChange[]) => void) | undefined;
  /**
   * Changes that wait until the HTTP thread has taken the previous ones: the latest, and no more.
   */
  #waiting: ManualChange[] = [];
  #underWay = false;

  /** Without an HTTP thread, `toHttp` is undefined. */
  constructor(say: (line: string) => void, toHttp: ((changes: readonly ManualChange[]) => void) | undefined) {
    this.#say = say;
    this.#toHttp = toHttp;
  }

  take(changes: readonly ManualChange[], dropped: number): void {
    for (const change of changes) this.#say(changeText(change));
    if (dropped > 0) this.#say(`audit: ${dropped} further changes in the meantime were not recorded`);
    if (this.#toHttp === undefined) return;
    this.#waiting.push(...changes);
    if (this.#waiting.length > WAITING_MAX) this.#waiting = this.#waiting.slice(-WAITING_MAX);
    if (!this.#underWay) this.#send(this.#toHttp);
  }

  /** Called when the HTTP thread has taken the last ones. */
  taken(): void {
    this.#underWay = false;
    this.flush();
  }

  /** Sends what waits, before an answer to a question that the HTTP thread asked after it. */
  flush(): void {
    if (this.#toHttp !== undefined) this.#send(this.#toHttp);
  }

  #send(toHttp: (changes: readonly ManualChange[]) => void): void {
    if (this.#waiting.length === 0) return;
    this.#underWay = true;
    toHttp(this.#waiting);
    this.#waiting = [];
  }
}

/** Time limit of a clean shutdown. */
const STOP_MS_MAX = 4000;
/** The same before any client is served, when the log has only been read. */
const STOP_LOADING_MS_MAX = 500;
/** Time that an exit waits for the last lines of output, and for the binlog thread. */
const LAST_LINES_MS = 200;
const LOG_THREAD_MS = 200;
const STDOUT = 1;
const STDERR = 2;

/** Runs the server, or prints the text that the options request. */
export async function main(): Promise<void> {
  const args = process.argv.slice(2);
  const read = (): Options | Exit => parseOptions(args, PROGRAM, process.env);
  const options = read();
  if ("exitCode" in options) {
    process.stdout.write(options.stdout);
    process.stderr.write(stderrOf(options, args));
    process.exitCode = options.exitCode;
    return;
  }
  const form = logFormOf(options.logFormat, STDERR);
  const diagnostics = await createLog(form, options.logLevel, nonBlockingWriter(STDERR));
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

/** The help, or the error of a flag in the form of all fatal errors. */
function stderrOf(exit: Exit, args: readonly string[]): string {
  if (exit.exitCode === 0 || exit.stderr === "") return printableLines(exit.stderr);
  const flags = args.join(" ").matchAll(/(?<=--log-format[ =])\S+/g);
  const asked = [...flags].at(-1)?.[0] ?? process.env["RUNNERBEAN_LOG_FORMAT"];
  const message = exit.stderr.trimEnd().replace(`${PROGRAM}: `, "");
  return fatalLine(message, logFormOf(asked === "json" ? "json" : "auto", STDERR));
}

/** An address to listen on, and what its clients need. */
type Address = readonly [listen: Listen, isTls: boolean, auth: OpenListener["auth"]];

class Server {
  readonly #options: Options;
  readonly #log: Logger;
  readonly #diagnostics: Diagnostics;
  /** Output of -V and -VV; undefined without them. */
  readonly #verbose: LineSink | undefined;
  readonly #topology: Topology;
  readonly #placement: ChosenPlacement;
  readonly #control: ControlWords;
  readonly #reloading: Reloading;
  readonly #onDeath = (thread: string, error: Error | undefined): void => this.#threadDied(thread, error);
  #acceptors: AcceptorHandle[] = [];
  #binlog: BinlogSupervisor | undefined;
  #binlogThread: BinlogThreadHandle | undefined;
  #scrub: Scrub | undefined;
  readonly #listening = new Listening(
    () => this.#acceptors,
    (line) => this.#verbose?.write(line),
  );
  readonly #memory: MemoryWatch;
  #http: HttpThreadHandle | undefined;
  readonly #facts: ProcessFacts;
  readonly #audit: AuditRelay;
  /** The servers whose job ids are valid here: without a log, this process alone. */
  #origins: readonly Origin[];
  #group: GroupRole | undefined;
  #serving = false;
  #stopping = false;
  #exiting = false;
  /** Exit code of a clean shutdown. */
  #exitCode = 0;

  /** `reread` reads the options again, for a reload. */
  constructor(options: Options, diagnostics: Diagnostics, reread: () => Options | Exit) {
    const { log } = diagnostics;
    this.#options = options;
    this.#facts = processFactsOf(options);
    this.#origins = originsOf([[this.#facts.instanceId, 1]]);
    this.#log = log;
    this.#diagnostics = diagnostics;
    if (options.verbose > 0) {
      const droppedLine = (count: number): string => `${droppedWords(count, "of -V")}\n`;
      this.#verbose = new LineSink(nonBlockingWriter(STDOUT), droppedLine);
    }
    this.#reloading = new Reloading(options, reread, {
      log,
      isServing: () => this.#serving,
      acceptors: () => this.#acceptors,
      tellHttp: (order) => this.#http?.tell(order),
      limitMemory: (bytesMax) => this.#memory.configure(bytesMax),
    });
    this.#audit = new AuditRelay(
      (line) => log.info(line),
      options.http === undefined ? undefined : (changes) => this.#http?.tell({ order: "changes", changes }),
    );
    this.#placement = placementFor(options);
    this.#topology = topologyFor(options, this.#placement);
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
    this.#reloading.warnOfExpiry();
    this.#memory.configure(options.memoryBytesMax);
    this.#verbose?.write(`pid ${process.pid}\n`);
    this.#handleSignals();
    const addresses = await this.#addresses();
    const http = options.http === undefined ? undefined : await this.#startHttp(options.http);
    const recovery = recoveryChannels(this.#topology);
    const threads = new ServingThreads({
      options,
      topology: this.#topology,
      placement: this.#placement,
      log: this.#log,
      onDeath: this.#onDeath,
    });
    const shards = threads.startShards(recovery.toShards);
    const { binlog, replicate } = options;
    const logStart = binlog === undefined ? undefined : this.#logStart(binlog, recovery.toBinlog);
    const resident =
      logStart !== undefined && this.#placement.hasResidentLog ? await residentLog(logStart) : undefined;
    this.#acceptors = threads.startAcceptors(recovery.toShards, {
      facts: this.#facts,
      rules: this.#reloading.rules,
      residentLog: resident?.data,
      onNews: (news) => this.#onNews(news),
    });
    const transport = await threads.transportOf(this.#acceptors);
    // Scripts wait for the protocol's port and then ask over HTTP, so the HTTP port opens first.
    // All code is loaded before the user changes.
    await http?.opens(options.user !== undefined);
    // In a group, only the server that serves clients may have its port open.
    let listeners: readonly OpenListener[] = replicate === undefined ? await this.#listen(addresses) : [];
    const loadLog = logStart === undefined ? undefined : await this.#startLog(logStart, resident);
    if (binlog !== undefined) this.#scrub = this.#createScrub(binlog);
    // By now all threads have loaded their code, which the new user may not be allowed to read.
    await Promise.all(shards);
    const giveMemoryWhenIdle = memoryGiver(options, () => this.#messages(), this.#log);
    if (options.user !== undefined) switchUser(options.user);
    if (this.#stopping) return;
    this.#group?.start();
    // A standby loads no log before it has the lead.
    if (replicate !== undefined) this.#scrub?.start();
    await loadLog?.();
    if (replicate === undefined) this.#scrub?.start();
    await this.#group?.mayServe;
    if (this.#stopping) return;
    if (replicate !== undefined) listeners = await this.#listen(addresses);
    await this.#serve(listeners, transport, http);
    giveMemoryWhenIdle();
  }

  async #serve(
    listeners: readonly OpenListener[],
    transport: TransportKind,
    http: StartedHttp | undefined,
  ): Promise<void> {
    this.#serving = true;
    // A client that gets a reply over the protocol may ask over HTTP next.
    await http?.serve(listeners, transport);
    if (this.#stopping) return;
    const isLoaded = http?.isLoaded ?? true;
    if (isLoaded) beginColdPhase(() => this.#messages());
    for (const acceptor of this.#acceptors) acceptor.serve(this.#origins);
    this.#group?.serves();
    if (this.#options.replicate !== undefined) new FrozenPorts(this.#topology, this.#acceptors, this.#log);
    loadTimeZonesSoon();
    const httpWhere = await http?.listening;
    if (this.#stopping) return;
    if (!isLoaded) beginColdPhase(() => this.#messages());
    const where = listeners.map((each) => each.where).join(", ");
    notifySystemd("ready", `serves on ${where}`);
    this.#log.info(this.#startLine(httpWhere === undefined ? where : `${where} and ${httpWhere}`, transport));
  }

  #createScrub(directory: string): Scrub {
    return scrubOf(directory, this.#topology, {
      tell: (level, message) => this.#log[level](message),
      onReport: (report) => this.#http?.tell({ order: "scrubbed", report }),
    });
  }

  /** Returns how many messages all threads have taken so far. */
  #messages(): number {
    return turnCountsOf(this.#topology).reduce((sum, { messages }) => sum + messages, 0);
  }

  #startLine(where: string, transport: TransportKind): string {
    const { shards, acceptors, binlog, memoryBytesMax } = this.#options;
    const threads = `${plural(shards, "shard")} and ${plural(acceptors, "acceptor")} ${this.#placement.why}`;
    const kept = binlog === undefined ? "" : `, log in ${binlog}`;
    const hasLimit = memoryBytesMax !== Number.POSITIVE_INFINITY;
    const limited = hasLimit ? `, at most ${sizeText(memoryBytesMax)} of jobs` : "";
    return `runnerbean ${VERSION} serves on ${where} with ${threads}, ${transport}${kept}${limited}; stop it with Ctrl-C or kill ${process.pid}`;
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

  async #startHttp(address: HttpAddress): Promise<StartedHttp> {
    const http = await startHttp({
      options: this.#options,
      address,
      topology: this.#topology,
      placement: this.#placement.placement,
      stats: this.#facts,
      rules: this.#reloading.httpRules,
      onDeath: this.#onDeath,
      notice: (text) => this.#log.warn(text),
      onNews: (news) => {
        if (news.news === "log") this.#log[news.level](news.message);
        else if (news.news === "ask") this.#acceptors[news.acceptor]?.ask(news.question);
        else if (news.news === "more-changes") this.#audit.taken();
        else if (news.news === "scrub") news.pauses ? this.#scrub?.pause() : this.#scrub?.walk();
        else if (news.news === "reload") this.#reloading.reload("HTTP", news.question);
      },
    });
    this.#http = http.handle;
    return http;
  }

  #logStart(directory: string, recovery: RecoveryChannels["toBinlog"]): LogStartOptions {
    return {
      options: this.#options,
      directory,
      topology: this.#topology,
      instanceId: this.#facts.instanceId,
      diagnostics: this.#diagnostics,
      recovery,
      onProgress: (share) => this.#http?.tell({ order: "replayed", share }),
      onDeath: (thread, error) => {
        // During a shutdown too, which would otherwise wait forever for the thread's last message.
        this.#stopping = false;
        this.#threadDied(thread, error);
      },
      onEnd: (exitCode) => void this.exit(exitCode),
    };
  }

  /**
   * Resolves when the binlog thread is ready, with a function that loads the log. That resolves
   * when every job of the log is in its shard.
   */
  async #startLog(start: LogStartOptions, resident: StartedLog | undefined): Promise<() => Promise<void>> {
    const { supervisor, handle } = resident ?? (await logInThread(start, () => this.#startGroup()));
    this.#binlogThread = handle;
    await handle.loaded;
    return async () => {
      this.#binlog = supervisor;
      handle.open();
      this.#origins = await supervisor.recovered;
    };
  }

  async #addresses(): Promise<Address[]> {
    const { listen, listeners } = this.#options;
    if (listen === "none" && listeners.length === 0)
      throw new OperatorError("-l none needs a [[listener]] in the file of --config", ExitCode.Usage);
    const notice = (text: string): void => this.#log.warn(text);
    const addresses: Address[] = [];
    if (listen !== "none")
      addresses.push([await listenAddress(this.#options, process.env, notice), false, "none"]);
    for (const listener of listeners)
      addresses.push([await furtherAddress(listener, notice), listener.cert !== undefined, listener.auth]);
    // Members of a group on one machine may share a port, which only the primary opens.
    if (this.#options.replicate === undefined)
      for (const [address] of addresses) await this.#listening.probe(address);
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
        // From here on, no reply to an unacknowledged change may leave.
        this.#control.set(ControlWord.NoMoreReplies);
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

  /** Makes every acceptor listen on all addresses, and returns them in order. */
  async #listen(addresses: readonly Address[]): Promise<OpenListener[]> {
    const open: OpenListener[] = [];
    for (const [listen, isTls, auth] of addresses)
      open.push({ where: await this.#listening.listen(listen, isTls), auth });
    return open;
  }

  #onNews(news: AcceptorNews): void {
    if (news.news === "log") this.#log[news.level](news.message);
    else if (news.news === "verbose") {
      for (const line of news.lines) this.#verbose?.write(`${printableLines(line)}\n`);
      if (news.dropped > 0) this.#verbose?.write(`${droppedWords(news.dropped, "of -V")}\n`);
    } else if (news.news === "changes") this.#audit.take(news.changes, news.dropped);
    else if (news.news === "connections" || news.news === "closed" || news.news === "connection-ended") {
      this.#audit.flush();
      this.#http?.tell({ order: "answer", answer: news });
    } else if (news.news === "failed") this.#log.error(`listening failed: ${news.message}`);
  }

  #threadDied(thread: string, error: Error | undefined): void {
    // A clean shutdown would wait for it forever.
    if (this.#exiting || (this.#stopping && error === undefined)) return;
    // From now on, acknowledge nothing that might be lost with the thread.
    this.#control.set(ControlWord.NoMoreReplies);
    this.#stopping = true;
    this.#log.fatal(
      { err: error },
      `the thread "${thread}" died; the server ends, because a partial server is worse than none`,
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
    await Promise.all([
      this.#diagnostics.lines.drained(LAST_LINES_MS),
      this.#verbose?.drained(LAST_LINES_MS),
    ]);
    process.exit(exitCode);
  }

  #handleSignals(): void {
    onSigusr1(() => {
      this.#control.set(ControlWord.Draining);
      this.#log.info("SIGUSR1: draining; new jobs are refused from now on");
    });
    // Without a file, there is nothing to reload, and SIGHUP ends the process as usual, but not
    // after nohup.
    const { config, tokenFile } = this.#options;
    if ((config ?? tokenFile) !== undefined) process.on("SIGHUP", () => this.#reloading.reload("SIGHUP"));
    else if (process.env["SIGHUP_IGNORED"] !== undefined) process.on("SIGHUP", () => {});
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void this.#stop(signal));
  }

  async #stop(signal: string): Promise<void> {
    if (this.#stopping) {
      if (this.#exiting) process.exit(1);
      return this.exit(1);
    }
    this.#stopping = true;
    this.#scrub?.stop();
    this.#log.info(`${signal}: stopping; send it again to stop at once`);
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
      this.#log.warn("some clients did not read their replies in time; their connections were closed");
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
