// Table of the settings in the order of the help, each with flag, file key and effect.

import { type ConnectionLimits, NO_LIMITS } from "../../acceptor/admission/listener-policy.ts";
import { type Setting, SettingError } from "../../config/setting.ts";
import type { HttpAlso } from "../../http/http-also.ts";
import type { HttpAddress } from "../../http/http-thread.ts";
import type { ProtocolName } from "../../message/topology.ts";
import { LOG_LEVELS, type LogLevel } from "../logging/log.ts";
import { BEANSTALKD_SETTINGS, type BeanstalkdSettings, beanstalkdDefaults } from "./beanstalkd-settings.ts";
import { GROUP_DEFAULTS, GROUP_SETTINGS, type GroupSettings } from "./group-settings.ts";
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
import { count, THREAD_DEFAULTS, THREAD_SETTINGS, type ThreadSettings } from "./thread-settings.ts";
import { readTubes } from "./tubes-file.ts";

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
  /** See access/token-file.ts. */
  tokenFile: string | undefined;
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
    httpNice: HTTP_NICE,
    metricsTubesMax: METRICS_TUBES_MAX,
    metricsTubes: [],
    salvage: false,
    logLevel: "info",
    tokenFile: undefined,
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
  ...TABLES,
];
