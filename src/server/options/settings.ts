// Table of the settings in the order of the help, each with flag, file key and effect.

import {
  type ConnectionLimits,
  type KeepAlive,
  NO_LIMITS,
} from "../../acceptor/admission/listener-policy.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { SEGMENT_BYTES_MAX } from "../../binlog/segments/segment-format.ts";
import { FileFault, readOperatorFile } from "../../config/operator-file.ts";
import {
  parseDurationMs,
  parseSize,
  type Setting,
  SettingError,
  withoutUnits,
} from "../../config/setting.ts";
import type { HttpAlso } from "../../http/http-address.ts";
import type { HttpAddress } from "../../http/http-thread.ts";
import type { ProtocolName } from "../../message/topology.ts";
import { JOB_BYTES_MAX_DEFAULT, JOB_BYTES_MAX_LIMIT } from "../../protocol/limits.ts";
import { OptionParser, OptionsSyntax } from "../../protocol/option-parser.ts";
import { SETTING_ROWS } from "../../protocol/option-rows.ts";
import { Span } from "../../protocol/request.ts";
import { isTubePattern } from "../../protocol/tube-name.ts";
import { parseGroupUrl } from "../../replica/group-url.ts";
import { SETTINGS as TUBE_SETTINGS } from "../../schema/setting.ts";
import {
  describeHttpAddress,
  HTTP_ALSO_SETTINGS,
  HTTP_DEFAULT,
  HTTP_GUARD_SETTINGS,
  type HttpTlsFiles,
  httpAlsoTable,
  NO_HTTP_TLS,
  parseHttpAddress,
  readHttpAlso,
} from "./http-settings.ts";
import {
  LISTENER_SETTINGS,
  type ListenerOptions,
  listenerTable,
  networks,
  portNumber,
  readListeners,
  unchangeable,
} from "./listener-settings.ts";
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from "./log.ts";
import { count, THREAD_DEFAULTS, THREAD_SETTINGS, type ThreadSettings } from "./thread-settings.ts";

// Settings that beanstalkd has too: addresses, the size of jobs, and the log.

interface BeanstalkdSettings {
  listen: string;
  port: string;
  user: string | undefined;
  jobBytesMax: number;
  /** Log directory; undefined for no log. */
  binlog: string | undefined;
  /** Maximum time between a logged change and its fsync; Infinity for never. */
  fsyncMs: number;
  binlogBytes: number;
  /** Notices to log once logging is set up. */
  notices: string[];
}

const BINLOG_BYTES_DEFAULT = 10485760;
const FSYNC_MS_DEFAULT = 50;

function beanstalkdDefaults(): BeanstalkdSettings {
  return {
    listen: "127.0.0.1",
    port: "11300",
    user: undefined,
    jobBytesMax: JOB_BYTES_MAX_DEFAULT,
    binlog: undefined,
    fsyncMs: FSYNC_MS_DEFAULT,
    binlogBytes: BINLOG_BYTES_DEFAULT,
    notices: [],
  };
}

const BYTES = 'bytes, as 65536, "64K" or "8G"';
const MILLISECONDS = 'milliseconds, or a time such as "250ms" or "30s"';

/** Takes digits in beanstalkd's form, and units as the file does. Throws SettingError. */
function quantity(flag: string, unit: typeof BYTES | typeof MILLISECONDS, text: string, max: number): number {
  const isPlain = /^[ \t]*\+?[0-9]+$/.test(text);
  const value = isPlain ? Number(text) : unit === BYTES ? parseSize(text) : parseDurationMs(text, "ms");
  if (value !== undefined && value <= max) return value;
  const bound = max === Number.POSITIVE_INFINITY ? "" : `, at most ${max}`;
  throw new SettingError(
    `invalid ${unit === BYTES ? "size" : "time"}: ${text} (${flag} takes ${unit}${bound})`,
  );
}

const BEANSTALKD_SETTINGS: readonly Setting<BeanstalkdSettings>[] = [
  {
    key: "binlog",
    flags: "-b, --binlog <dir>",
    kind: "text",
    text: "keep a write-ahead log in this directory: acknowledged changes survive a restart",
    example: "/var/lib/runnerbean",
    apply(options, dir) {
      options.binlog = dir === "" ? "/" : dir;
    },
    show: ({ binlog }) => binlog,
  },
  {
    key: "fsync",
    flags: "-f, --fsync <time>",
    kind: "milliseconds",
    plainFlag: true,
    text: `with -b: fsync at most this long after a change, in ms without a unit; 0: before each reply (default ${FSYNC_MS_DEFAULT})`,
    apply(options, ms) {
      options.fsyncMs = quantity("-f", MILLISECONDS, ms, 2 ** 31);
    },
    show: ({ fsyncMs }) => (fsyncMs === Number.POSITIVE_INFINITY ? undefined : fsyncMs),
  },
  {
    key: "never-fsync",
    flags: "-F, --never-fsync",
    kind: "switch",
    text: "with -b: never fsync; the kernel decides when the log reaches the disk",
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
    text: "address or name to listen on, unix:PATH, or none if --config defines listeners (default 127.0.0.1; 0.0.0.0 for all)",
    apply(options, address) {
      options.listen = address;
    },
    show: ({ listen }) => listen,
  },
  {
    key: "port",
    flags: "-p, --port <port>",
    kind: "port",
    text: "TCP port or service name (default 11300; 0 picks a free port)",
    apply(options, port) {
      portNumber(port);
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
      options.binlogBytes = quantity("-s", BYTES, bytes, SEGMENT_BYTES_MAX);
    },
    show: ({ binlogBytes }) => binlogBytes,
  },
  {
    key: "user",
    flags: "-u, --user <user>",
    kind: "text",
    text: "switch to this user and its groups after binding",
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
    text: `maximum size of a job body (default ${JOB_BYTES_MAX_DEFAULT}, at most ${JOB_BYTES_MAX_LIMIT})`,
    apply(options, bytes) {
      options.jobBytesMax = quantity("-z", BYTES, bytes, Number.POSITIVE_INFINITY);
      if (options.jobBytesMax <= JOB_BYTES_MAX_LIMIT) return;
      options.jobBytesMax = JOB_BYTES_MAX_LIMIT;
      options.notices.push(`maximum job size was set to ${JOB_BYTES_MAX_LIMIT}`);
    },
    show: ({ jobBytesMax }) => jobBytesMax,
  },
];

// Settings for limits: connections, and memory for jobs.

interface Limited {
  limits: ConnectionLimits;
  /** Memory limit for jobs, in bytes; Infinity for no limit. */
  memoryBytesMax: number;
}

/** A smaller limit is certainly a mistake. */
const MEMORY_BYTES_MIN = 1 << 20;

/** Maximums of Linux: 32767 s between probes, and 127 probes. */
const KEEP_ALIVE_MS_MAX = 32_767_000;
const PROBES_MAX = 127;

function positive(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1) throw new SettingError(`${text} is not a whole number of at least 1`);
  return value;
}

const shown = (limit: number): number | undefined => (limit === Number.POSITIVE_INFINITY ? undefined : limit);

/**
 * Parses "60s,10s,3": idle time before the first probe, interval of the probes, and how many may be
 * lost.
 */
function parseKeepAlive(text: string): KeepAlive {
  const [delay = "", interval, count, ...rest] = text.split(",").map((part) => part.trim());
  const ms = (part: string): number => {
    const value = parseDurationMs(part, "s") ?? 0;
    if (value < 1000 || value > KEEP_ALIVE_MS_MAX)
      throw new SettingError(`${part} is not a time from 1s to 32767s`);
    return value;
  };
  const probes = count === undefined ? undefined : positive(count);
  if (rest.length > 0 || (probes ?? 1) > PROBES_MAX)
    throw new SettingError(
      `${text} is not of the form 60s,10s,3: idle time, time between probes, number of probes`,
    );
  return { delayMs: ms(delay), intervalMs: interval === undefined ? undefined : ms(interval), count: probes };
}

function keepAliveText({ delayMs, intervalMs, count }: KeepAlive): string {
  const seconds = (ms: number): string => `${ms / 1000}s`;
  return [
    seconds(delayMs),
    ...(intervalMs === undefined ? [] : [seconds(intervalMs)]),
    ...(count === undefined ? [] : [count]),
  ].join(",");
}

const LIMIT_SETTINGS: readonly Setting<Limited>[] = [
  {
    key: "max-memory",
    flags: "--max-memory <size>",
    kind: "size",
    reloads: true,
    example: "8G",
    text: "memory limit for jobs and their bodies; puts beyond it get OUT_OF_MEMORY (default: no limit)",
    apply(options, bytes) {
      if (Number(bytes) < MEMORY_BYTES_MIN) throw new SettingError(`less than 1M is too little: ${bytes}`);
      options.memoryBytesMax = Number(bytes);
    },
    show: ({ memoryBytesMax }) => shown(memoryBytesMax),
  },
  {
    key: "max-connections",
    flags: "--max-connections <n>",
    kind: "number",
    plainFlag: true,
    reloads: true,
    example: 10_000,
    text: "limit for open connections; further ones are closed at once (default: as many as file descriptors allow)",
    apply(options, text) {
      options.limits = { ...options.limits, connections: positive(text) };
    },
    show: ({ limits }) => shown(limits.connections),
  },
  {
    key: "max-connections-per-address",
    flags: "--max-connections-per-address <n>",
    kind: "number",
    plainFlag: true,
    reloads: true,
    example: 1000,
    text: "the same limit for each client address (default: no limit)",
    apply(options, text) {
      options.limits = { ...options.limits, perAddress: positive(text) };
    },
    show: ({ limits }) => shown(limits.perAddress),
  },
  {
    key: "idle-timeout",
    flags: "--idle-timeout <time>",
    kind: "seconds",
    reloads: true,
    example: "10m",
    text: "close connections that have been idle for this long; one that waits for or holds a job is never idle (default: never)",
    apply(options, ms) {
      if (Number(ms) < 1000) throw new SettingError("it must be at least one second");
      options.limits = { ...options.limits, idleMs: Number(ms) };
    },
    show({ limits }) {
      const ms = shown(limits.idleMs);
      return ms === undefined ? undefined : ms / 1000;
    },
  },
  {
    key: "tcp-keepalive",
    flags: "--tcp-keepalive <times>",
    kind: "text",
    reloads: true,
    text: "idle time before the first probe, time between probes, number of lost probes: 60s,10s,3 (default 60s, and the system's values)",
    apply(options, text) {
      options.limits = { ...options.limits, keepAlive: parseKeepAlive(text) };
    },
    show: ({ limits }) => keepAliveText(limits.keepAlive),
  },
];

// Settings of a server in a group: `--replicate` and related options.

interface GroupSettings {
  /** Group of this server: nats://a,b,c/GROUP; undefined for none. */
  replicate: string | undefined;
  /** Address of this server for other nodes, "host:port"; by default host name and port. */
  replicateAs: string | undefined;
  /** Condition that replies to changes wait for, besides the server's own log. */
  replicateWait: "log" | "standby" | "nothing";
  /** Time for which it may serve after its last acknowledged append, seconds. */
  replicateLease: number;
}

const GROUP_DEFAULTS: Readonly<GroupSettings> = {
  replicate: undefined,
  replicateAs: undefined,
  replicateWait: "log",
  replicateLease: 3,
};

const GROUP_SETTINGS: readonly Setting<GroupSettings>[] = [
  {
    key: "replicate",
    flags: "--replicate <url>",
    kind: "text",
    text: "with -b: join a group of servers, such as nats://a:4222,b:4222,c:4222/GROUP (see runnerbean replica --help)",
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
    text: "host:port at which the other servers of the group reach this one (default: the host name and -p)",
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
    text: "what a reply waits for: log: the shared log has it (default); standby: a standby has it on disk, too; nothing",
    apply(options, what) {
      if (what !== "log" && what !== "standby" && what !== "nothing")
        throw new SettingError(`invalid value: --replicate-wait ${what} (log, standby or nothing)`);
      options.replicateWait = what;
    },
    show: ({ replicateWait }) => replicateWait,
  },
  {
    key: "replicate-lease",
    flags: "--replicate-lease <time>",
    kind: "seconds",
    text: "how long to serve without an answer from the shared log, 2s to 60s (default 3s); must be the same in the whole group",
    apply(options, ms) {
      const seconds = Number(ms) / 1000;
      if (seconds < 2 || seconds > 60)
        throw new SettingError(`invalid time: --replicate-lease ${seconds}s (2s to 60s)`);
      options.replicateLease = seconds;
    },
    show: ({ replicateLease }) => replicateLease,
  },
];

// Reader of the `--tubes` file: each line has a pattern of tubes and the arguments of set-tube. It
// skips empty lines and lines that begin with `#`.

/**
 * Returns the settings of each pattern in file order. Throws a SettingError that names the line.
 */
function readTubes(file: string): [pattern: string, text: string][] {
  let text: string;
  try {
    // A character each byte, as on the wire.
    text = Buffer.from(readOperatorFile("tubes", file)).toString("latin1");
  } catch (error) {
    if (error instanceof FileFault) throw new SettingError(error.message);
    throw error;
  }
  const settings: [string, string][] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const words = line.trim().split(/[ \t]+/);
    if (words[0] === "" || words[0]!.startsWith("#")) continue;
    const [pattern, ...given] = words as [string, ...string[]];
    const options = given.map(inSeconds);
    const fault = faultOf(pattern, options);
    if (fault !== undefined) throw new SettingError(`--tubes ${file}, line ${index + 1}: ${fault}`);
    settings.push([pattern, options.join(" ")]);
  }
  return settings;
}

/** Returns `backoff=300` for `backoff=5m`. */
function inSeconds(option: string): string {
  const [name = "", ...value] = option.split("=");
  const row = TUBE_SETTINGS.find(({ word }) => word === name);
  return row === undefined ? option : `${name}=${withoutUnits(row.kind, value.join("="))}`;
}

function faultOf(pattern: string, options: readonly string[]): string | undefined {
  const name = asciiBytes(pattern);
  if (!isTubePattern(name, 0, name.length))
    return `${pattern} is neither a tube name, a prefix with *, nor *`;
  if (options.length === 0) return `nothing is set for ${pattern}; write for example max-attempts=5`;
  for (const option of options) {
    const bytes = asciiBytes(` ${option}`);
    const syntax = parser.parse(bytes, 0, bytes.length, SETTING_ROWS, new Span());
    if (syntax === OptionsSyntax.Unknown)
      return `${parser.unknown.text} can't be set (${SETTING_ROWS.map((row) => row.name).join(", ")})`;
    if (syntax === OptionsSyntax.Bad) return `${option} is not a valid setting: ${usageOf(option)}`;
  }
  const names = options.map((option) => option.split("=", 1)[0]!);
  const twice = names.find((each, index) => names.indexOf(each) < index);
  return twice === undefined ? undefined : `${twice} is set twice`;
}

function usageOf(option: string): string {
  const name = option.split("=", 1)[0];
  const row = SETTING_ROWS.find((each) => each.name === name);
  return row === undefined ? "name=value" : `${row.name}=${row.usage}`;
}

const parser = new OptionParser();

type Compat = "default" | "1.12" | "1.13";

/** All settings. */
export interface Settings extends BeanstalkdSettings, ThreadSettings, GroupSettings {
  verbose: number;
  compat: Compat;
  protocol: ProtocolName;
  /** Settings of tubes at startup, by pattern: the lines of `--tubes`. */
  tubes: readonly (readonly [pattern: string, text: string])[];
  /** File that they come from. */
  tubesFile: string | undefined;
  /** HTTP address; undefined for no HTTP. */
  http: HttpAddress | undefined;
  /** HTTP may be reachable from other machines without tokens. */
  httpInsecure: boolean;
  httpTls: HttpTlsFiles;
  /** Requests per second for each token, or each address without tokens; Infinity for no limit. */
  httpRequestsMax: number;
  /** As `proxyFrom`, for HTTP. */
  httpProxyFrom: readonly string[] | undefined;
  /** Allowed host names for HTTP, besides addresses and localhost. */
  httpHosts: readonly string[];
  /** Further HTTP addresses. */
  httpAlso: readonly HttpAlso[];
  /** Nice value of the HTTP thread. */
  httpNice: number;
  /** Maximum of tubes with metric series of their own, and globs of those that take precedence. */
  metricsTubesMax: number;
  metricsTubes: readonly string[];
  /** Starts with the parts of a damaged log that are provably intact. */
  salvage: boolean;
  logLevel: LogLevel;
  logFormat: LogFormat;
  /** See access/token-file.ts. */
  tokenFile: string | undefined;
  /** Networks of proxies, whose connections to -l and -p begin with a PROXY header. */
  proxyFrom: readonly string[] | undefined;
  /** Addresses besides that of -l and -p. */
  listeners: readonly ListenerOptions[];
  limits: ConnectionLimits;
  /** Memory limit for jobs, in bytes; Infinity for no limit. */
  memoryBytesMax: number;
}

const METRICS_TUBES_MAX = 500;
const HTTP_NICE = 5;

export function defaultSettings(): Settings {
  return {
    ...beanstalkdDefaults(),
    ...THREAD_DEFAULTS,
    ...GROUP_DEFAULTS,
    verbose: 0,
    compat: "default",
    protocol: "extended",
    tubes: [],
    tubesFile: undefined,
    http: undefined,
    httpInsecure: false,
    httpHosts: [],
    httpTls: NO_HTTP_TLS,
    httpAlso: [],
    httpRequestsMax: Number.POSITIVE_INFINITY,
    httpProxyFrom: undefined,
    httpNice: HTTP_NICE,
    metricsTubesMax: METRICS_TUBES_MAX,
    metricsTubes: [],
    salvage: false,
    logLevel: "info",
    logFormat: "auto",
    tokenFile: undefined,
    proxyFrom: undefined,
    listeners: [],
    limits: NO_LIMITS,
    memoryBytesMax: Number.POSITIVE_INFINITY,
  };
}

const OF_PROTOCOL: readonly Setting<Settings>[] = [
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
    text: "extended: beanstalkd's commands and the extensions (default); strict: beanstalkd's commands only",
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
    text: 'tube settings to apply at each start, one line per tube in the form set-tube takes: "emails-* max-attempts=5"',
    example: "/etc/runnerbean/tubes",
    apply(options, file) {
      options.tubes = readTubes(file);
      options.tubesFile = file;
    },
    show: ({ tubesFile }) => tubesFile,
    restartPart: ({ tubes }) => JSON.stringify(tubes),
  },
  {
    key: "salvage",
    flags: "--salvage",
    kind: "switch",
    text: "with -b: start from a damaged log with what can be read; damaged files are set aside",
    set(options, on) {
      options.salvage = on;
    },
    show: ({ salvage }) => salvage,
  },
];

function logFormat(text: string): LogFormat {
  const format = LOG_FORMATS.find((each) => each === text);
  if (format !== undefined) return format;
  throw new SettingError(`invalid format: --log-format ${text} (${LOG_FORMATS.join(", ")})`);
}

const OF_DIAGNOSTICS: readonly Setting<Settings>[] = [
  {
    key: "log-level",
    flags: "--log-level <level>",
    kind: "text",
    reloads: true,
    text: `minimum level of log messages: ${LOG_LEVELS.join(", ")} (default info)`,
    apply(options, text) {
      const level = LOG_LEVELS.find((each) => each === text);
      if (level === undefined)
        throw new SettingError(`invalid level: --log-level ${text} (${LOG_LEVELS.join(", ")})`);
      options.logLevel = level;
    },
    show: ({ logLevel }) => logLevel,
  },
  {
    key: "log-format",
    flags: "--log-format <format>",
    kind: "text",
    text: "text, json, or auto: text on a terminal and for systemd, otherwise JSON, but fatal errors as text (default auto)",
    example: "json",
    apply(options, text) {
      options.logFormat = logFormat(text);
    },
    show: ({ logFormat }) => logFormat,
  },
  {
    key: "token-file",
    flags: "--token-file <file>",
    kind: "text",
    reloads: true,
    text: "tokens and what each may do, for listeners that require one: see runnerbean token",
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
    text: "log connections; -VV also logs commands and replies",
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
    text: `also serve HTTP: jobs, tubes, metrics, health, dashboard (default ${HTTP_DEFAULT}; HOST:PORT, PORT or unix:PATH)`,
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
    text: "with --http: host names to accept besides the address",
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
    text: "with --http: serve anybody who can reach the address, without a token",
    set(options, on) {
      options.httpInsecure = on;
    },
    show: ({ httpInsecure }) => httpInsecure,
  },
];

const OF_PROXIES: readonly Setting<Settings>[] = [
  {
    key: "proxy-from",
    flags: "--proxy-from <networks>",
    kind: "list",
    reloads: true,
    text: "addresses and networks of proxies: a connection from there to -l and -p begins with a PROXY header, version 1 or 2, which names the client",
    example: ["10.0.0.7", "192.168.4.0/24"],
    set(options, proxies) {
      options.proxyFrom = networks(proxies);
    },
    show: ({ proxyFrom }) => proxyFrom,
  },
];

const TABLES: readonly Setting<Settings>[] = [
  {
    key: "http.also",
    kind: "tables",
    rows: HTTP_ALSO_SETTINGS,
    text: "a further HTTP address and what it serves, for example only probes and Prometheus",
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
    text: "a further address and what it requires of clients",
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
    text: `nice value of the HTTP thread, which yields when cores are scarce, 0 to 19 (default ${HTTP_NICE}; 0 if workers use HTTP)`,
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
    text: "globs of tubes that get series before all others",
    example: ["mail-*"],
    set(options, globs) {
      options.metricsTubes = globs;
    },
    show: ({ metricsTubes }) => metricsTubes,
  },
];

export const SETTINGS: readonly Setting<Settings>[] = [
  ...BEANSTALKD_SETTINGS,
  ...THREAD_SETTINGS,
  ...OF_PROTOCOL,
  ...GROUP_SETTINGS,
  ...OF_DIAGNOSTICS,
  ...OF_HTTP,
  ...HTTP_GUARD_SETTINGS,
  ...OF_HTTP_THREAD,
  ...OF_METRICS,
  ...LIMIT_SETTINGS,
  ...OF_PROXIES,
  ...TABLES,
];
