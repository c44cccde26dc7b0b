// Rules of the rooms: who may import whom, and which hazard belongs to whom.

import { dirname, join, normalize } from "node:path";
import { MAY_IMPORT } from "./room-imports.ts";

/** Rooms without a clock, a random source and any input or output. */
const PURE_ROOMS = ["base", "protocol", "engine"];

/** The one thing that a pure room may read of its environment, once at the start. */
const PURE_READ = 'process.env["RUNNERBEAN_CHECKED"]';

const IMPURE =
  /\b(?:Date\.now|new Date(?:\(\)|\b(?!\())|performance\b|process\b|setTimeout|setInterval|setImmediate|queueMicrotask|Math\.random|crypto\b|console\b|fetch\b|Worker\b|require\()/;

interface Keeper {
  readonly hazard: string;
  readonly pattern: RegExp;
  /** Paths below src (or bench/) that may do it: a room, or a file. */
  readonly keepers: readonly string[];
}

const moduleImport = (name: string): RegExp => new RegExp(`["'](?:node:)?${name}(?:/[a-z]+)?["']`);

const KEEPERS: readonly Keeper[] = [
  { hazard: "Atomics", pattern: /\bAtomics\b/, keepers: ["ring/", "uring/"] },
  {
    hazard: "node:ffi",
    pattern: moduleImport("ffi"),
    keepers: ["uring/kernel.ts", "server/lifecycle/memory.ts", "server/lifecycle/process.ts"],
  },
  {
    hazard: "node:net",
    pattern: moduleImport("net"),
    keepers: [
      "acceptor/",
      "http/app/early-refusals.ts",
      "http/early-port.ts",
      "replica/standby-node.ts",
      "server/listeners/listen-address.ts",
      "server/options/log.ts",
      "client/",
      "cli/commands/proxy.ts",
      "cli/target.ts",
      "cli/commands/shadow.ts",
    ],
  },
  {
    hazard: "node:fs",
    pattern: moduleImport("fs"),
    keepers: [
      "binlog/disk/",
      "http/metrics/process-figures.ts",
      "http/early-port.ts",
      "http/state/history-file.ts",
      // The log's segments, for a backup.
      "http/queue/backups.ts",
      // The dashboard's files, once at its start.
      "http/app/dashboard-assets.ts",
      "binlog/tools/tools.ts",
      // Files that the operator names.
      "config/operator-file.ts",
      "server/lifecycle/process.ts",
      "server/listeners/listen-address.ts",
      "server/lifecycle/memory.ts",
      "server/options/thread-settings.ts",
      "server/options/log.ts",
      "server/listeners/access-rules.ts",
      "server/run.ts",
      // What the service may write to, and how fast its disk is.
      "server/tools/service-unit.ts",
      "server/tools/doctor-command.ts",
      "server/tools/token-command.ts",
      "cli/commands/backup.ts",
      // Standard output without blocking.
      "cli/commands/shadow.ts",
    ],
  },
  {
    hazard: "node:worker_threads",
    pattern: moduleImport("worker_threads"),
    keepers: [
      "threads/thread.ts",
      "http/thread.ts",
      "binlog/thread.ts",
      "binlog/binlog-runtime.ts",
      "binlog/following.ts",
      "replica/thread.ts",
      "threads/start-threads.ts",
      "threads/new-thread.ts",
      "server/server.ts",
    ],
  },
  { hazard: "node:sqlite", pattern: moduleImport("sqlite"), keepers: ["binlog/disk/directory-lock.ts"] },
  {
    hazard: "fastify",
    pattern: moduleImport("fastify"),
    keepers: ["http/api/", "http/app/", "http/admin/", "http/jobs/", "http/tubes/", "http/limits/"],
  },
  { hazard: "croner", pattern: moduleImport("croner"), keepers: ["shard/schedules/"] },
  { hazard: "piscina", pattern: moduleImport("piscina"), keepers: ["binlog/recovery/"] },
  {
    hazard: "node:tls",
    pattern: moduleImport("tls"),
    keepers: ["acceptor/sockets/tls-sockets.ts", "acceptor/sockets/tls-context.ts", "client/"],
  },
  { hazard: "ipaddr.js", pattern: /["']ipaddr\.js["']/, keepers: ["access/"] },
  { hazard: "lit-html and uPlot", pattern: /from ["'](?:lit-html|uplot)/, keepers: ["dashboard/"] },
  { hazard: "smol-toml", pattern: moduleImport("smol-toml"), keepers: ["config/"] },
  { hazard: "pg", pattern: moduleImport("pg"), keepers: ["outbox/database.ts"] },
  { hazard: "NATS", pattern: /["']@nats-io\//, keepers: ["replica/jetstream-log.ts"] },
  // Not even Node's internals need one: `socket as Socket & { _handle }` names what is missing.
  { hazard: "a cast through unknown", pattern: /\bas unknown as\b/, keepers: [] },
  {
    hazard: "child processes",
    pattern: moduleImport("child_process"),
    keepers: ["server/", "cli/commands/reserve.ts"],
  },
];

export interface Source {
  /** Below src, as `engine/engine.ts`. */
  readonly path: string;
  readonly text: string;
}

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']/g;

/** A line without its comment; a keeper may be named in prose. */
const withoutComment = (line: string): string =>
  line.replace(/(^|\s)\/\/.*$/, "").replace(/^\s*(?:\/\*|\*).*$/, "");

/** The room of a file, or what is above src. */
export const roomOf = (path: string): string => (path.startsWith("..") ? ".." : dirname(path));

/** Returns what is wrong with an import of a file, if anything. */
function wrongImport(path: string, room: string, target: string): string | undefined {
  if (!target.startsWith("."))
    return PURE_ROOMS.includes(room)
      ? `${room}/ imports nothing from outside, but here ${target}`
      : undefined;
  const other = roomOf(normalize(join(dirname(path), target)));
  if (other === "..") return `imports ${target} from outside of src`;
  const may = other === room || (MAY_IMPORT[room] ?? []).includes(other);
  return may ? undefined : `${room}/ may not import ${other}/`;
}

/** Returns what is wrong with a file, each with file and line. */
export function violations({ path, text }: Source): string[] {
  const found: string[] = [];
  const room = roomOf(path);
  text.split("\n").forEach((whole, index) => {
    const line = withoutComment(whole);
    const say = (what: string): void => void found.push(`src/${path}:${index + 1}: ${what}`);
    for (const [, target] of line.matchAll(IMPORT)) {
      const wrong = wrongImport(path, room, target!);
      if (wrong !== undefined) say(wrong);
    }
    if (PURE_ROOMS.includes(room) && IMPURE.test(line.replace(PURE_READ, "")))
      say(`${room}/ reads no clock, draws no random number and does no I/O`);
    for (const { hazard, pattern, keepers } of KEEPERS) {
      if (pattern.test(line) && !keepers.some((keeper) => path.startsWith(keeper))) {
        say(`${hazard} belongs to ${keepers.join(", ") || "no file"}`);
      }
    }
  });
  return found;
}

/** The files that each file imports, at run time or as types. */
function importsOf(files: readonly Source[]): Map<string, string[]> {
  const imports = new Map<string, string[]>();
  for (const { path, text } of files) {
    const code = text.split("\n").map(withoutComment).join("\n");
    const targets = [...code.matchAll(IMPORT)].map(([, target]) => target!);
    const inside = targets.filter((target) => target.startsWith("."));
    imports.set(
      path,
      inside.map((target) => normalize(join(dirname(path), target))),
    );
  }
  return imports;
}

/** The ways on which a file of a room without circles comes back to itself. */
export function circles(files: readonly Source[]): string[] {
  const imports = importsOf(files);
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(" -> "));
    if (way.includes(path) || done.has(path)) return;
    for (const other of imports.get(path) ?? []) visit(other, [...way, path]);
    done.add(path);
  };
  for (const path of imports.keys()) visit(path, []);
  return found;
}
