// A value for each setting, other than its default: in the file, as text of a flag or a variable,
// and what it changes.

import { SERVED } from "../../../../src/http/http-address.ts";
import { defaultSettings, type Settings } from "../../../../src/server/options/settings.ts";
import { THREAD_DEFAULTS } from "../../../../src/server/options/thread-settings.ts";

type Changes = Readonly<{ [Key in keyof Settings]?: unknown }>;

export interface SettingCase {
  readonly key: string;
  /** As the file writes it; a whole table for those. */
  readonly toml: string;
  /** As a flag or a variable has it; undefined if only the file can set it. */
  readonly text: string | undefined;
  /** The fields of the options; of `httpTls` and `limits` only those that change. */
  readonly changes: Changes;
  /** The keys of other cases, without which it would be refused. */
  readonly needs: readonly string[];
}

/** A number that no machine has by default. */
const other = (number: number): number => (number === 3 ? 4 : 3);
const SHARDS = other(THREAD_DEFAULTS.shards);
const ACCEPTORS = other(THREAD_DEFAULTS.acceptors);
const HTTP = ["http.listen"];
const CERT = [...HTTP, "http.tls.cert", "http.tls.key"];

const inQuotes = (text: string): string => JSON.stringify(text);

const LISTENER = {
  ...{ address: "unix:/l", cert: "c", key: "k", clientCa: "a", minVersion: "1.3", auth: "certificate" },
  ...{ allow: ["10.0.0.0/8"], proxyFrom: undefined, mode: 0o640, group: "g" },
};
const PROXIED = {
  ...{ address: "0.0.0.0:9", cert: undefined, key: undefined, clientCa: undefined, minVersion: "1.2" },
  ...{
    auth: "none",
    allow: undefined,
    proxyFrom: ["10.0.0.7", "fd00::/8"],
    mode: undefined,
    group: undefined,
  },
};
const LISTENER_TABLE = `[[listener]]
address = "unix:/l"
tls = { cert = "c", key = "k", client-ca = "a", min = "1.3" }
auth = "certificate"
allow = ["10.0.0.0/8"]
mode = "0640"
group = "g"
[[listener]]
address = "0.0.0.0:9"
proxy-from = ["10.0.0.7", "fd00::/8"]`;
const ALSO_TABLE = `[[http.also]]
listen = "127.0.0.1:9"
serve = ["metrics"]
metrics-public = true
secure = true
[[http.also]]
listen = 10`;
const ALSO = [
  { address: { host: "127.0.0.1", port: 9 }, serves: ["metrics"], metricsPublic: true, tls: true },
  { address: { host: "127.0.0.1", port: 10 }, serves: SERVED, metricsPublic: false, tls: false },
];

type Row = readonly [key: string, toml: string, text: string | undefined, changes: Changes, needs?: string[]];

// biome-ignore format: a table
const rowsFor = (tubesFile: string): readonly Row[] => [
  ["binlog", '"/b"', "/b", { binlog: "/b" }],
  ["fsync", '"2s"', "2s", { fsyncMs: 2000 }],
  ["never-fsync", "true", "yes", { fsyncMs: Number.POSITIVE_INFINITY }],
  ["listen", '"0.0.0.0"', "0.0.0.0", { listen: "0.0.0.0" }],
  ["port", "7", "7", { port: "7" }],
  ["binlog-size", '"64K"', "64K", { binlogBytes: 65_536 }],
  ["user", '"queue"', "queue", { user: "queue" }],
  ["max-job-size", '"1K"', "1K", { jobBytesMax: 1024 }],
  ["shards", `${SHARDS}`, `${SHARDS}`, { shards: SHARDS }],
  ["acceptors", `${ACCEPTORS}`, `${ACCEPTORS}`, { acceptors: ACCEPTORS }],
  ["placement", '"apart"', "apart", { placement: "apart" }],
  ["log-placement", '"together"', "together", { logPlacement: "together" }],
  ["threads", "1", "1", { threads: 1 }],
  ["no-migration", "true", "1", { migration: false }],
  ["transport", '"io_uring"', "io_uring", { transport: "io_uring" }],
  ["compat", '"1.13"', "1.13", { compat: "1.13" }],
  ["protocol", '"strict"', "strict", { protocol: "strict" }],
  ["tubes", inQuotes(tubesFile), tubesFile, { tubes: [["mails", "max-jobs=5"]], tubesFile }],
  ["salvage", "true", "on", { salvage: true }, ["binlog"]],
  ["replicate", '"nats://a:1,b:2/g"', "nats://a:1,b:2/g", { replicate: "nats://a:1,b:2/g" }],
  ["replicate-as", '"h:8"', "h:8", { replicateAs: "h:8" }],
  ["replicate-wait", '"standby"', "standby", { replicateWait: "standby" }],
  ["replicate-lease", "2.5", "2.5", { replicateLease: 2.5 }],
  ["log-level", '"debug"', "debug", { logLevel: "debug" }],
  ["log-format", '"json"', "json", { logFormat: "json" }],
  ["token-file", '"/t"', "/t", { tokenFile: "/t" }],
  ["verbose", "2", "2", { verbose: 2 }],
  ["http.listen", '"127.0.0.1:8"', "127.0.0.1:8", { http: { host: "127.0.0.1", port: 8 } }],
  ["http.hosts", '["A.example", "b"]', "A.example, b", { httpHosts: ["a.example", "b"] }],
  ["http.insecure", "true", "true", { httpInsecure: true }],
  ["http.tls.cert", '"/c"', "/c", { httpTls: { cert: "/c" } }, [...HTTP, "http.tls.key"]],
  ["http.tls.key", '"/k"', "/k", { httpTls: { key: "/k" } }, [...HTTP, "http.tls.cert"]],
  ["http.tls.client-ca", '"/a"', "/a", { httpTls: { clientCa: "/a" } }, CERT],
  ["http.tls.min", '"1.3"', "1.3", { httpTls: { minVersion: "1.3" } }, CERT],
  ["http.max-requests", "5", "5", { httpRequestsMax: 5 }],
  ["http.proxy-from", '["10.0.0.7"]', "10.0.0.7", { httpProxyFrom: ["10.0.0.7"] }],
  ["http.nice", "7", "7", { httpNice: 7 }],
  ["metrics.max-tubes", "9", "9", { metricsTubesMax: 9 }],
  ["metrics.tubes", '["a-*", "b"]', "a-*,b", { metricsTubes: ["a-*", "b"] }],
  ["max-memory", '"2M"', "2M", { memoryBytesMax: 2_097_152 }],
  ["max-connections", "5", "5", { limits: { connections: 5 } }],
  ["max-connections-per-address", "6", "6", { limits: { perAddress: 6 } }],
  ["idle-timeout", '"2m"', "2m", { limits: { idleMs: 120_000 } }],
  ["tcp-keepalive", '"30s,5s,4"', "30s,5s,4", { limits: { keepAlive: { delayMs: 30_000, intervalMs: 5000, count: 4 } } }],
  ["proxy-from", '["10.0.0.0/8", "::1"]', "10.0.0.0/8, ::1", { proxyFrom: ["10.0.0.0/8", "::1"] }],
  ["http.also", ALSO_TABLE, undefined, { httpAlso: ALSO }, CERT],
  ["listener", LISTENER_TABLE, undefined, { listeners: [LISTENER, PROXIED] }],
];

/** `tubesFile` is a file of one line, `mails max-jobs=5`. */
export const settingCases = (tubesFile: string): SettingCase[] =>
  rowsFor(tubesFile).map(([key, toml, text, changes, needs = []]) => ({ key, toml, text, changes, needs }));

/** Returns the file for some cases. */
export function fileOf(cases: readonly SettingCase[]): string {
  const isTable = ({ text }: SettingCase): boolean => text === undefined;
  const lines = cases.filter((each) => !isTable(each)).map(({ key, toml }) => `${key} = ${toml}`);
  return `${[...lines, ...cases.filter(isTable).map(({ toml }) => toml)].join("\n")}\n# the end\n`;
}

/** Returns the cases that one needs, from all of them. */
export const neededBy = ({ needs }: SettingCase, cases: readonly SettingCase[]): SettingCase[] =>
  cases.filter(({ key }) => needs.includes(key));

/** Returns all settings, of which some cases have changed theirs. */
export function settingsWith(cases: readonly SettingCase[]): Settings {
  const settings = defaultSettings();
  for (const { changes } of cases) {
    const { httpTls, limits, ...whole } = changes;
    Object.assign(settings, whole, {
      httpTls: { ...settings.httpTls, ...(httpTls as object | undefined) },
      limits: { ...settings.limits, ...(limits as object | undefined) },
    });
  }
  return settings;
}
