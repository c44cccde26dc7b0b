// Table of the settings in the order of the help, each with flag, file key and effect.

import { release } from "node:os";
import type { TransportKind } from "../../acceptor/acceptor.ts";
import { type ConnectionLimits, NO_LIMITS } from "../../acceptor/admission/listener-policy.ts";
import { SEGMENT_BYTES_MAX } from "../../binlog/format/segment-format.ts";
import { type Setting, SettingError } from "../../config/setting.ts";
import type { HttpAlso } from "../../http/http-also.ts";
import type { HttpAddress } from "../../http/http-thread.ts";
import type { Placement, ProtocolName } from "../../message/topology.ts";
import { JOB_BYTES_MAX_DEFAULT, JOB_BYTES_MAX_LIMIT } from "../../protocol/limits.ts";
import { parseGroupUrl } from "../../replica/group-url.ts";
import { LOG_LEVELS, type LogLevel } from "../logging/log.ts";
import { describeHttpAddress, HTTP_DEFAULT, parseHttpAddress } from "./http-address.ts";
import { HTTP_ALSO_SETTINGS, httpAlsoTable, readHttpAlso } from "./http-also.ts";
import { HTTP_GUARD_SETTINGS, type HttpTlsFiles, NO_HTTP_TLS } from "./http-settings.ts";
import { LIMIT_SETTINGS } from "./limit-settings.ts";
import {
  LISTENER_SETTINGS,
  type ListenerOptions,
  listenerTable,
  readListeners,
  unchangeable,
} from "./listener-settings.ts";
import { ACCEPTORS_MAX, defaultThreads, defaultTransport, SHARDS_MAX } from "./machine-defaults.ts";
import { readTubes } from "./tubes-file.ts";
import { usableCores } from "./usable-cores.ts";

export type Compat = "default" | "1.12" | "1.13";

/** All settings. */
export interface Settings {
  listen: string;
  port: string;
  user: string | undefined;
  jobBytesMax: number;
  verbose: number;
  shards: number;
  acceptors: number;
  transport: TransportKind | "auto";
  /** Whether shards run in the threads of acceptors; see placement.ts. */
  placement: Placement | "auto";
  /** Whether the log runs in the serving thread; see placement.ts. */
  logPlacement: Placement | "auto";
  /** Serving threads with `together`; undefined for as many as pay off. */
  threads: number | undefined;
  /** Whether connections move to the threads of their tubes. */
  migration: boolean;
  compat: Compat;
  protocol: ProtocolName;
  /** Settings of tubes at startup, by pattern: the lines of `--tubes`. */
  tubes: readonly (readonly [pattern: string, text: string])[];
  /** File that they come from. */
  tubesFile: string | undefined;
  /** Log directory; undefined for no log. */
  binlog: string | undefined;
  /** Maximum time between a logged change and its fsync; Infinity for never. */
  fsyncMs: number;
  binlogBytes: number;
  /** HTTP address; undefined for no HTTP. */
  http: HttpAddress | undefined;
  /** HTTP may be reachable from other machines without tokens. */
  httpInsecure: boolean;
  httpTls: HttpTlsFiles;
  /** Requests per second for each token, or each address without tokens; Infinity for no limit. */
  httpRequestsMax: number;
  /** Allowed host names for HTTP, besides addresses and localhost. */
  httpHosts: readonly string[];
  /** Further HTTP addresses. */
  httpAlso: readonly HttpAlso[];
  /** Nice value of the http thread. */
  httpNice: number;
  /** Maximum of tubes with metric series of their own, and globs of those that take precedence. */
  metricsTubesMax: number;
  metricsTubes: readonly string[];
  /** Starts with the parts of a damaged log that are provably intact. */
  salvage: boolean;
  /** Group of this server: nats://a,b,c/GROUP; undefined for none. */
  replicate: string | undefined;
  /** Address of this server for other nodes, "host:port"; by default host name and port. */
  replicateAs: string | undefined;
  /** What replies to changes wait for, besides the server's own log. */
  replicateWait: "log" | "standby" | "nothing";
  /** Time for which it may serve after its last acknowledged append, seconds. */
  replicateLease: number;
  logLevel: LogLevel;
  /** See access/token-file.ts. */
  tokenFile: string | undefined;
  /** Addresses besides that of -l and -p. */
  listeners: readonly ListenerOptions[];
  limits: ConnectionLimits;
  /** Memory limit for jobs, in bytes; Infinity for no limit. */
  memoryBytesMax: number;
  /** Notices to log once logging is set up. */
  notices: string[];
}

const BINLOG_BYTES_DEFAULT = 10485760;
const FSYNC_MS_DEFAULT = 50;
const METRICS_TUBES_MAX = 500;
const HTTP_NICE = 5;
const THREADS = defaultThreads(usableCores());

export function defaultSettings(): Settings {
  return {
    listen: "127.0.0.1",
    port: "11300",
    user: undefined,
    jobBytesMax: JOB_BYTES_MAX_DEFAULT,
    verbose: 0,
    shards: THREADS.shards,
    acceptors: THREADS.acceptors,
    transport: defaultTransport(release()),
    placement: "auto",
    logPlacement: "auto",
    threads: undefined,
    migration: true,
    compat: "default",
    protocol: "extended",
    tubes: [],
    tubesFile: undefined,
    binlog: undefined,
    fsyncMs: FSYNC_MS_DEFAULT,
    binlogBytes: BINLOG_BYTES_DEFAULT,
    http: undefined,
    httpInsecure: false,
    httpHosts: [],
    httpTls: NO_HTTP_TLS,
    httpAlso: [],
    httpRequestsMax: Number.POSITIVE_INFINITY,
    httpNice: HTTP_NICE,
    metricsTubesMax: METRICS_TUBES_MAX,
    metricsTubes: [],
    salvage: false,
    replicate: undefined,
    replicateAs: undefined,
    replicateWait: "log",
    replicateLease: 3,
    logLevel: "info",
    tokenFile: undefined,
    listeners: [],
    limits: NO_LIMITS,
    memoryBytesMax: Number.POSITIVE_INFINITY,
    notices: [],
  };
}

function size(name: string, text: string, max: number): number {
  if (!/^[ \t]*\+?[0-9]+$/.test(text)) throw new SettingError(`invalid size: ${text}`);
  const value = Number(text);
  if (value > max) throw new SettingError(`invalid size: ${text} (${name} takes at most ${max})`);
  return value;
}

function count(name: string, text: string, max: number): number {
  const value = /^[0-9]+$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > max) throw new SettingError(`invalid number: ${name} ${text} (1 to ${max})`);
  return value;
}

function placement(how: string): Settings["placement"] {
  if (how !== "together" && how !== "apart" && how !== "auto")
    throw new SettingError(`invalid placement: ${how} (together, apart or auto)`);
  return how;
}

/** Settings that beanstalkd has too. */
const OF_BEANSTALKD: readonly Setting<Settings>[] = [
  {
    key: "binlog",
    flags: "-b, --binlog <dir>",
    kind: "text",
    text: "keep a log in this directory: what was acknowledged survives",
    example: "/var/lib/runnerbean",
    apply(options, dir) {
      options.binlog = dir === "" ? "/" : dir;
    },
    show: ({ binlog }) => binlog,
  },
  {
    key: "fsync",
    flags: "-f, --fsync <ms>",
    kind: "milliseconds",
    plainFlag: true,
    text: `with -b: fsync at most this long after a change; 0 before its reply (default ${FSYNC_MS_DEFAULT})`,
    apply(options, ms) {
      options.fsyncMs = size("-f", ms, 2 ** 31);
    },
    show: ({ fsyncMs }) => (fsyncMs === Number.POSITIVE_INFINITY ? undefined : fsyncMs),
  },
  {
    key: "never-fsync",
    flags: "-F, --never-fsync",
    kind: "switch",
    text: "with -b: leave it to the system when the log reaches the disk",
    set(options, on) {
      if (on) options.fsyncMs = Number.POSITIVE_INFINITY;
      else if (options.fsyncMs === Number.POSITIVE_INFINITY) options.fsyncMs = FSYNC_MS_DEFAULT;
    },
    show: ({ fsyncMs }) => fsyncMs === Number.POSITIVE_INFINITY,
  },
  {
    key: "listen",
    flags: "-l, --listen <addr>",
    kind: "text",
    text: "address or name to listen on, or unix:PATH, or none where a file has listeners (default 127.0.0.1; 0.0.0.0 for all)",
    apply(options, address) {
      options.listen = address;
    },
    show: ({ listen }) => listen,
  },
  {
    key: "port",
    flags: "-p, --port <port>",
    kind: "port",
    text: "TCP port or service name (default 11300; 0 for a free one)",
    apply(options, port) {
      options.port = port;
    },
    show: ({ port }) => (/^\d+$/.test(port) ? Number(port) : port),
  },
  {
    key: "binlog-size",
    flags: "-s, --binlog-size <bytes>",
    kind: "size",
    plainFlag: true,
    text: `with -b: size of one log file (default ${BINLOG_BYTES_DEFAULT}, at most ${SEGMENT_BYTES_MAX})`,
    apply(options, bytes) {
      options.binlogBytes = size("-s", bytes, SEGMENT_BYTES_MAX);
    },
    show: ({ binlogBytes }) => binlogBytes,
  },
  {
    key: "user",
    flags: "-u, --user <user>",
    kind: "text",
    text: "become this user, with its groups, after binding",
    example: "runnerbean",
    apply(options, user) {
      options.user = user;
    },
    show: ({ user }) => user,
  },
  {
    key: "max-job-size",
    flags: "-z, --max-job-size <bytes>",
    kind: "size",
    plainFlag: true,
    text: `largest job body (default ${JOB_BYTES_MAX_DEFAULT}, at most ${JOB_BYTES_MAX_LIMIT})`,
    apply(options, bytes) {
      options.jobBytesMax = size("-z", bytes, Number.POSITIVE_INFINITY);
      if (options.jobBytesMax <= JOB_BYTES_MAX_LIMIT) return;
      options.jobBytesMax = JOB_BYTES_MAX_LIMIT;
      options.notices.push(`maximum job size was set to ${JOB_BYTES_MAX_LIMIT}`);
    },
    show: ({ jobBytesMax }) => jobBytesMax,
  },
];

const FURTHER: readonly Setting<Settings>[] = [
  {
    key: "shards",
    flags: "--shards <n>",
    kind: "number",
    plainFlag: true,
    text: `shards (engines), 1 to ${SHARDS_MAX} (default for this machine: ${THREADS.shards})`,
    apply(options, n) {
      options.shards = count("--shards", n, SHARDS_MAX);
    },
    show: ({ shards }) => shards,
  },
  {
    key: "acceptors",
    flags: "--acceptors <n>",
    kind: "number",
    plainFlag: true,
    text: `acceptors (sockets), 1 to ${ACCEPTORS_MAX} (default for this machine: ${THREADS.acceptors})`,
    apply(options, n) {
      options.acceptors = count("--acceptors", n, ACCEPTORS_MAX);
    },
    show: ({ acceptors }) => acceptors,
  },
  {
    key: "placement",
    flags: "--placement <how>",
    kind: "text",
    text: "together: shards live in the threads of acceptors; apart: each has its own; auto: by the cores that may be used (default)",
    apply(options, how) {
      options.placement = placement(how);
    },
    show: ({ placement }) => placement,
  },
  {
    key: "log-placement",
    flags: "--log-placement <how>",
    kind: "text",
    text: "together: the log lives in the thread that serves, if that is one; apart: it has its own; auto: together with -f 0 (default)",
    apply(options, how) {
      options.logPlacement = placement(how);
    },
    show: ({ logPlacement }) => logPlacement,
  },
  {
    key: "threads",
    flags: "--threads <n>",
    kind: "number",
    plainFlag: true,
    text: "with --placement together: threads that serve, 1 to the number of acceptors (default: one less than cores)",
    example: 1,
    apply(options, n) {
      options.threads = count("--threads", n, ACCEPTORS_MAX);
    },
    show: ({ threads }) => threads,
  },
  {
    key: "no-migration",
    flags: "--no-migration",
    kind: "switch",
    text: "connections stay in the thread that they came to; without, with --placement together and io_uring, they follow their tubes",
    set(options, on) {
      options.migration = !on;
    },
    show: ({ migration }) => !migration,
  },
  {
    key: "transport",
    flags: "--transport <kind>",
    kind: "text",
    text: "io_uring (Linux 6.1 or later) or libuv (default: io_uring from Linux 6.18 on where it is permitted)",
    example: "libuv",
    apply(options, kind) {
      if (kind !== "libuv" && kind !== "io_uring")
        throw new SettingError(`invalid transport: ${kind} (libuv or io_uring)`);
      options.transport = kind;
    },
    show: ({ transport }) => (transport === "auto" ? undefined : transport),
  },
  {
    key: "compat",
    flags: "--compat <version>",
    kind: "text",
    text: "stats output exactly as beanstalkd 1.12 or 1.13",
    example: "1.13",
    apply(options, version) {
      if (version !== "1.12" && version !== "1.13")
        throw new SettingError(`invalid version: --compat ${version} (1.12 or 1.13)`);
      options.compat = version;
    },
    show: ({ compat }) => (compat === "default" ? undefined : compat),
  },
  {
    key: "protocol",
    flags: "--protocol <name>",
    kind: "text",
    text: "extended: beanstalkd's commands and ours (default); strict: no others than beanstalkd's",
    apply(options, name) {
      if (name !== "extended" && name !== "strict")
        throw new SettingError(`invalid protocol: ${name} (extended or strict)`);
      options.protocol = name;
    },
    show: ({ protocol }) => protocol,
  },
  {
    key: "tubes",
    flags: "--tubes <file>",
    kind: "text",
    text: 'what is set for tubes at each start: a line each, as set-tube takes it, "emails-* max-attempts=5"',
    example: "/etc/runnerbean/tubes",
    apply(options, file) {
      options.tubes = readTubes(file);
      options.tubesFile = file;
    },
    show: ({ tubesFile }) => tubesFile,
  },
  {
    key: "salvage",
    flags: "--salvage",
    kind: "switch",
    text: "with -b: start with what is whole of a damaged log; bad files are set aside",
    set(options, on) {
      options.salvage = on;
    },
    show: ({ salvage }) => salvage,
  },
  {
    key: "replicate",
    flags: "--replicate <url>",
    kind: "text",
    text: "with -b: be one of a group of servers, as in nats://a:4222,b:4222,c:4222/GROUP (see runnerbean replica --help)",
    example: "nats://a:4222,b:4222,c:4222/queue",
    apply(options, url) {
      try {
        parseGroupUrl(url);
      } catch (error) {
        throw new SettingError((error as Error).message);
      }
      options.replicate = url;
    },
    show: ({ replicate }) => replicate,
  },
  {
    key: "replicate-as",
    flags: "--replicate-as <addr>",
    kind: "text",
    text: "host:port at which other servers of the group see this one (default: the host's name and -p)",
    example: "queue1.example:11300",
    apply(options, address) {
      if (!/^.+:\d+$/.test(address))
        throw new SettingError(`invalid address: --replicate-as ${address} (host:port)`);
      options.replicateAs = address;
    },
    show: ({ replicateAs }) => replicateAs,
  },
  {
    key: "replicate-wait",
    flags: "--replicate-wait <what>",
    kind: "text",
    text: "what a reply waits for: log (default); standby: also until one has it on its disk; nothing",
    apply(options, what) {
      if (what !== "log" && what !== "standby" && what !== "nothing")
        throw new SettingError(`invalid value: --replicate-wait ${what} (log, standby or nothing)`);
      options.replicateWait = what;
    },
    show: ({ replicateWait }) => replicateWait,
  },
  {
    key: "replicate-lease",
    flags: "--replicate-lease <seconds>",
    kind: "decimal",
    plainFlag: true,
    text: "how long to serve without an answer of the shared log, 2 to 60 (default 3); the same in the whole group",
    apply(options, seconds) {
      const value = /^\d+(\.\d+)?$/.test(seconds) ? Number(seconds) : 0;
      if (value < 2 || value > 60)
        throw new SettingError(`invalid number: --replicate-lease ${seconds} (2 to 60)`);
      options.replicateLease = value;
    },
    show: ({ replicateLease }) => replicateLease,
  },
  {
    key: "log-level",
    flags: "--log-level <level>",
    kind: "text",
    reloads: true,
    text: `least level of diagnostics: ${LOG_LEVELS.join(", ")} (default info)`,
    apply(options, text) {
      const level = LOG_LEVELS.find((each) => each === text);
      if (level === undefined)
        throw new SettingError(`invalid level: --log-level ${text} (${LOG_LEVELS.join(", ")})`);
      options.logLevel = level;
    },
    show: ({ logLevel }) => logLevel,
  },
  {
    key: "token-file",
    flags: "--token-file <file>",
    kind: "text",
    reloads: true,
    text: "who may do what, where a listener wants to know: see runnerbean token",
    example: "/etc/runnerbean/tokens",
    apply(options, file) {
      options.tokenFile = file;
    },
    show: ({ tokenFile }) => tokenFile,
  },
  {
    key: "verbose",
    flags: "-V, --verbose",
    kind: "counter",
    text: "print connections; -VV also commands and replies",
    set(options, times) {
      options.verbose = times;
    },
    show: ({ verbose }) => verbose,
  },
];

const OF_HTTP: readonly Setting<Settings>[] = [
  {
    key: "http.listen",
    flags: "--http [addr]",
    kind: "port",
    text: `speak HTTP, too: jobs, tubes, metrics, health (default ${HTTP_DEFAULT}; HOST:PORT, PORT or unix:PATH)`,
    example: HTTP_DEFAULT,
    apply(options, address) {
      options.http = parseHttpAddress(address === "" ? HTTP_DEFAULT : address);
    },
    show: ({ http }) => (http === undefined ? undefined : describeHttpAddress(http)),
  },
  {
    key: "http.hosts",
    flags: "--http-hosts <names>",
    kind: "list",
    text: "with --http: names by which it may be asked, besides its address",
    example: ["queue.example.org"],
    set(options, names) {
      options.httpHosts = names.map((name) => name.toLowerCase());
    },
    show: ({ httpHosts }) => httpHosts,
  },
  {
    key: "http.insecure",
    flags: "--http-insecure",
    kind: "switch",
    text: "with --http: serve anybody who can reach its address, without tokens",
    set(options, on) {
      options.httpInsecure = on;
    },
    show: ({ httpInsecure }) => httpInsecure,
  },
];

const TABLES: readonly Setting<Settings>[] = [
  {
    key: "http.also",
    kind: "tables",
    rows: HTTP_ALSO_SETTINGS,
    text: "a further address of HTTP, and what it serves: for probes and Prometheus alone, say",
    apply(options, tables, read) {
      options.httpAlso = readHttpAlso(tables, read);
    },
    show: ({ httpAlso }) => httpAlso.map(httpAlsoTable),
  },
  {
    key: "listener",
    kind: "tables",
    rows: LISTENER_SETTINGS,
    reloads: true,
    text: "a further address, and what it demands of its clients",
    apply(options, tables, read) {
      options.listeners = readListeners(tables, read);
    },
    restartPart: ({ listeners }) => JSON.stringify(listeners.map(unchangeable)),
    show: ({ listeners }) => listeners.map(listenerTable),
  },
];

const OF_HTTP_THREAD: readonly Setting<Settings>[] = [
  {
    key: "http.nice",
    kind: "number",
    text: `how far the http thread stands back where cores are scarce, 0 to 19 (default ${HTTP_NICE}; 0 where the work itself goes over HTTP)`,
    apply(options, nice) {
      if (Number(nice) > 19) throw new SettingError(`invalid number: http.nice ${nice} (0 to 19)`);
      options.httpNice = Number(nice);
    },
    show: ({ httpNice }) => httpNice,
  },
];

const OF_METRICS: readonly Setting<Settings>[] = [
  {
    key: "metrics.max-tubes",
    kind: "number",
    text: `tubes with series of their own in metrics (default ${METRICS_TUBES_MAX}); the others are summed`,
    apply(options, tubes) {
      options.metricsTubesMax = count("metrics.max-tubes", tubes, 100_000);
    },
    show: ({ metricsTubesMax }) => metricsTubesMax,
  },
  {
    key: "metrics.tubes",
    kind: "list",
    text: "globs of tubes that have series before all others",
    example: ["mail-*"],
    set(options, globs) {
      options.metricsTubes = globs;
    },
    show: ({ metricsTubes }) => metricsTubes,
  },
];

export const SETTINGS: readonly Setting<Settings>[] = [
  ...OF_BEANSTALKD,
  ...FURTHER,
  ...OF_HTTP,
  ...HTTP_GUARD_SETTINGS,
  ...OF_HTTP_THREAD,
  ...OF_METRICS,
  ...LIMIT_SETTINGS,
  ...TABLES,
];
