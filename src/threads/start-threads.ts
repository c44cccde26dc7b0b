// Starts the worker threads and talks to them: shards first, then acceptors, then listening.

import { totalmem } from "node:os";
import { MessageChannel, type MessagePort, type Worker, type WorkerOptions } from "node:worker_threads";
import type { AcceptorNews, AcceptorOrder } from "../acceptor/acceptor.ts";
import type { AccessRules } from "../acceptor/admission/listener-policy.ts";
import type { ListenAddress } from "../acceptor/sockets/listener.ts";
import type { BinlogData, BinlogNews, BinlogOrder } from "../binlog/binlog-runtime.ts";
import type {
  AcceptorQuestion,
  HttpNews,
  HttpOrder,
  HttpThreadData,
  OpenListener,
} from "../http/http-thread.ts";
import type { Origin, Topology } from "../message/topology.ts";
import type { NodeNews } from "../replica/node-state.ts";
import type { GroupThreadData, NodeOrder } from "../replica/thread.ts";
import { newThread } from "./new-thread.ts";
import type { AcceptorWorkerData, LogWorkerData, ShardWorkerData, WorkerData } from "./thread.ts";

/**
 * docs/differences.md mentions the experimental features of Node in use (node:ffi, if requested),
 * so Node need not warn at every start.
 */
let execArgv = [...process.execArgv, "--disable-warning=ExperimentalWarning"];

/** Called when a thread has thrown, or has ended without being told to. */
export type OnThreadDeath = (thread: string, error: Error | undefined) => void;

function start(
  name: string,
  room: string,
  data: unknown,
  onDeath: OnThreadDeath,
  options: WorkerOptions = {},
): Worker {
  const worker = newWorker(room, { ...options, workerData: data, name });
  worker.on("error", (error) => onDeath(name, error instanceof Error ? error : new Error(String(error))));
  worker.on("exit", () => onDeath(name, undefined));
  return worker;
}

/**
 * Starts a worker. Options of V8 (--max-old-space-size=4096) apply to the whole process, and Node
 * rejects them for a thread.
 */
function newWorker(room: string, options: WorkerOptions): Worker {
  try {
    return newThread(room, { ...options, execArgv });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== "ERR_WORKER_INVALID_EXEC_ARGV") throw error;
    execArgv = execArgv.filter((argument) => !message.includes(argument));
    return newThread(room, { ...options, execArgv });
  }
}

/** Starts a shard in a thread of its own. Resolves once it takes messages. */
export function startShard(shard: ShardWorkerData, onDeath: OnThreadDeath): Promise<Worker> {
  const ports = shard.recovery === undefined ? [] : [shard.recovery];
  const data: WorkerData = { kind: "shard", shard };
  const worker = start(`shard ${shard.shard}`, "threads", data, onDeath, { transferList: ports });
  return new Promise((resolve) => worker.once("message", () => resolve(worker)));
}

/**
 * The channels that carry the log's jobs from the binlog to each shard; undefined for a shard
 * without a log.
 */
export interface RecoveryChannels {
  toShards: (MessagePort | undefined)[];
  toBinlog: MessagePort[];
}

export function recoveryChannels(topology: Topology): RecoveryChannels {
  const channels: RecoveryChannels = { toShards: [], toBinlog: [] };
  for (let shard = 0; shard < topology.shards; shard++) {
    if (topology.binlog === undefined) {
      channels.toShards.push(undefined);
      continue;
    }
    const { port1, port2 } = new MessageChannel();
    channels.toShards.push(port1);
    channels.toBinlog.push(port2);
  }
  return channels;
}

/** Starts the binlog thread, which opens the log when it is told to and reports its progress. */
export function startBinlog(
  data: BinlogData,
  onDeath: OnThreadDeath,
  onNews: OnBinlogNews,
): BinlogThreadHandle {
  const worker = start("binlog", "binlog", data, onDeath, { transferList: portsOf(data) });
  return { ...binlogHandle(worker, onNews), end: () => worker.terminate() };
}

/** Connects to a binlog that runs in an acceptor thread. `data` is for `startAcceptors`. */
export function residentBinlog(
  data: BinlogData,
  onNews: OnBinlogNews,
): { data: LogWorkerData; handle: BinlogThreadHandle } {
  const { port1, port2 } = new MessageChannel();
  return { data: { ...data, port: port1 }, handle: { ...binlogHandle(port2, onNews), end: async () => {} } };
}

export type OnBinlogNews = (news: Exclude<BinlogNews, { news: "loaded" }>) => void;

const portsOf = ({ recovery, group }: BinlogData): MessagePort[] =>
  group === undefined ? recovery : [...recovery, group];

function binlogHandle(way: Worker | MessagePort, onNews: OnBinlogNews): Omit<BinlogThreadHandle, "end"> {
  const loaded = new Promise<void>((resolve) => {
    way.on("message", (news: BinlogNews) => {
      if (news.news === "loaded") resolve();
      else onNews(news);
    });
  });
  const open: BinlogOrder = "open";
  return { loaded, open: () => way.postMessage(open, []) };
}

/** Starts the group thread, which begins when it is told to. */
export function startGroup(
  data: GroupThreadData,
  onDeath: OnThreadDeath,
  onNews: (news: NodeNews) => void,
): (order: NodeOrder) => void {
  const worker = start("group", "replica", data, onDeath, { transferList: [data.port] });
  worker.on("message", onNews);
  return (order) => worker.postMessage(order);
}

export interface BinlogThreadHandle {
  /** Resolves when the thread has loaded its code. */
  readonly loaded: Promise<void>;
  /** Opens and recovers the log. */
  open(): void;
  /** Ends the thread as a kill would. Resolves when it is gone. */
  end(): Promise<unknown>;
}

/**
 * Starts the thread of some acceptors and of the shards beside them. Returns a handle for each
 * acceptor.
 */
export function startAcceptors(
  data: Omit<AcceptorWorkerData, "ports">,
  onDeath: OnThreadDeath,
  onNews: (news: AcceptorNews) => void,
): AcceptorHandle[] {
  const { acceptors, shards } = data.topology.threads[data.thread]!;
  const channels = acceptors.map(() => new MessageChannel());
  const ports = channels.map(({ port1 }) => port1);
  const log = data.log === undefined ? [] : [data.log.port, ...portsOf(data.log)];
  const ways = data.residents.flatMap(({ recovery }) => (recovery === undefined ? [] : [recovery]));
  const residents = shards.length === 0 ? "" : ` with shard ${shards.join(", ")}`;
  const logName = data.log === undefined ? "" : " and the log";
  const roles: WorkerData = { kind: "acceptors", acceptors: { ...data, ports } };
  const transferred = [...ports, ...(ways as MessagePort[]), ...log];
  start(`acceptor ${acceptors.join(", ")}${residents}${logName}`, "threads", roles, onDeath, {
    transferList: transferred,
  });
  return channels.map(({ port2 }) => new AcceptorHandle(port2, onNews));
}

/**
 * Limit of the thread's JavaScript heap, in MB: this much or an eighth of the memory, for its data
 * about tubes. A heap that reaches the limit ends the server, but leaves other memory alone.
 */
const HTTP_HEAP_MB_MIN = 256;
const HTTP_HEAP_MB_MAX = 4096;
function httpHeapMb(): number {
  // Without a limit, a control group reports 0 or a number beyond all memory.
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  return Math.min(HTTP_HEAP_MB_MAX, Math.max(HTTP_HEAP_MB_MIN, Math.floor(bytes / 8 / 2 ** 20)));
}

export class HttpThreadHandle {
  readonly #worker: Worker;
  /** Resolves when it takes connections, if it does so before it has loaded its code. */
  readonly bound: Promise<void>;
  /** Resolves when it has loaded its code and listens, or with its failure. */
  readonly listening: Promise<HttpNews>;
  #onServing: () => void = () => {};
  #onStopped: () => void = () => {};

  constructor(data: HttpThreadData, onDeath: OnThreadDeath, onNews: (news: HttpNews) => void) {
    const limits = { maxOldGenerationSizeMb: httpHeapMb() };
    this.#worker = start("http", "http", data, onDeath, { resourceLimits: limits });
    const bound = Promise.withResolvers<void>();
    this.bound = bound.promise;
    this.listening = new Promise((resolve) => {
      this.#worker.on("message", (news: HttpNews) => {
        if (news.news === "bound") bound.resolve();
        else if (news.news === "listening" || news.news === "failed") resolve(news);
        else if (news.news === "serving") this.#onServing();
        else if (news.news === "stopped") this.#onStopped();
        else onNews(news);
      });
    });
  }

  tell(order: HttpOrder): void {
    this.#worker.postMessage(order);
  }

  /** Resolves when requests about jobs are served. */
  serve(listeners: readonly OpenListener[], transport: string): Promise<void> {
    const serving = new Promise<void>((resolve) => {
      this.#onServing = resolve;
    });
    this.tell({ order: "serve", listeners, transport });
    return serving;
  }

  /** Answers the requests in flight and closes all connections. */
  stop(): Promise<void> {
    const stopped = new Promise<void>((resolve) => {
      this.#onStopped = resolve;
    });
    this.tell({ order: "stop" });
    return stopped;
  }
}

export class AcceptorHandle {
  readonly #port: MessagePort;
  readonly #waiting = new Map<AcceptorNews["news"], (news: AcceptorNews) => void>();

  constructor(port: MessagePort, onNews: (news: AcceptorNews) => void) {
    this.#port = port;
    port.on("message", (news: AcceptorNews) => {
      const waiting = this.#waiting.get(news.news);
      this.#waiting.delete(news.news);
      if (waiting !== undefined) waiting(news);
      else if (news.news === "verbose") {
        onNews(news);
        this.#tell({ order: "say-more" });
      } else if (news.news === "changes") {
        onNews(news);
        this.#tell({ order: "more-changes" });
      } else onNews(news);
    });
  }

  /** Resolves when it takes orders, or with its failure. */
  ready(): Promise<AcceptorNews> {
    return Promise.race([this.#next("ready"), this.#next("failed")]);
  }

  /** Starts listening. Resolves with the port and descriptor, or with the failure. */
  listen(address: ListenAddress): Promise<AcceptorNews> {
    const answer = Promise.race([this.#next("listening"), this.#next("failed")]);
    this.#tell({ order: "listen", address });
    return answer;
  }

  /** Closes the ports. Connections stay. */
  closePorts(): void {
    this.#tell({ order: "close-ports" });
  }

  listenAgain(): void {
    this.#tell({ order: "listen-again" });
  }

  /** Forwards a query of the HTTP thread. */
  ask(order: AcceptorQuestion): void {
    this.#tell(order);
  }

  /** Replaces the access rules. */
  configure(rules: AccessRules): void {
    this.#tell({ order: "configure", rules });
  }

  /** Starts serving clients. `origins` are those of the jobs' ids. */
  serve(origins: readonly Origin[]): void {
    this.#tell({ order: "serve", origins });
  }

  /** Stops accepting, answers the commands in flight and closes all connections. */
  stop(): Promise<unknown> {
    const stopped = this.#next("stopped");
    this.#tell({ order: "stop" });
    return stopped;
  }

  #tell(order: AcceptorOrder): void {
    this.#port.postMessage(order);
  }

  #next(news: AcceptorNews["news"]): Promise<AcceptorNews> {
    return new Promise((resolve) => this.#waiting.set(news, resolve));
  }
}
