// Checks the imports between rooms (the tables "Rooms" in src/README.md and src/binlog/README.md),
// and that each hazard stays with its keeper.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

/**
 * For each room the rooms that it may import from, besides itself. A room is a folder: what stands
 * in "binlog/" itself is another room than "binlog/live/". Each is below those that it may import
 * from, so there is no way around in a circle.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  protocol: ["base"],
  config: [],
  access: ["protocol", "base"],
  ring: ["base"],
  uring: ["base"],
  "engine/jobs": ["protocol", "base"],
  "engine/queues": ["engine/jobs", "base"],
  "engine/tubes": ["engine/queues", "engine/jobs", "base"],
  "engine/waiting": ["engine/tubes", "engine/queues", "engine/jobs", "protocol", "base"],
  "engine/state": ["engine/waiting", "engine/tubes", "engine/queues", "engine/jobs", "protocol", "base"],
  "engine/policies": ["engine/state", "engine/tubes", "engine/queues", "engine/jobs", "protocol", "base"],
  "engine/transfer": [],
  "engine/walks": ["engine/tubes", "engine/queues", "engine/jobs", "base"],
  engine: [
    "engine/walks",
    "engine/transfer",
    "engine/policies",
    "engine/state",
    "engine/waiting",
    "engine/tubes",
    "engine/jobs",
    "protocol",
    "base",
  ],
  message: ["ring", "protocol", "base"],
  loop: ["message", "ring"],
  "acceptor/input": ["protocol", "base"],
  "acceptor/replies": ["acceptor/input", "message", "engine/jobs", "protocol", "base"],
  "acceptor/state": ["message", "ring", "protocol", "base"],
  "acceptor/admission": [
    "acceptor/state",
    "acceptor/replies",
    "acceptor/input",
    "message",
    "ring",
    "access",
    "protocol",
    "base",
  ],
  "acceptor/fanout": ["acceptor/state", "message", "ring", "protocol", "base"],
  "acceptor/fanout/lists": ["acceptor/fanout", "acceptor/state", "message", "protocol", "base"],
  "acceptor/fanout/reserve": ["acceptor/fanout", "acceptor/state", "message", "protocol", "base"],
  "acceptor/fanout/batch": [
    "acceptor/fanout/reserve",
    "acceptor/fanout/lists",
    "acceptor/fanout",
    "acceptor/state",
    "message",
    "protocol",
    "base",
  ],
  "acceptor/migration": ["acceptor/state", "acceptor/replies", "message", "ring", "protocol", "base"],
  "acceptor/connection": [
    "acceptor/migration",
    "acceptor/fanout/batch",
    "acceptor/fanout/reserve",
    "acceptor/fanout/lists",
    "acceptor/fanout",
    "acceptor/admission",
    "acceptor/state",
    "acceptor/replies",
    "acceptor/input",
    "message",
    "engine/jobs",
    "ring",
    "protocol",
    "base",
  ],
  "acceptor/sockets": [
    "acceptor/connection",
    "acceptor/migration",
    "acceptor/admission",
    "acceptor/state",
    "acceptor/replies",
    "acceptor/input",
    "engine/jobs",
    "uring",
    "base",
  ],
  acceptor: [
    "acceptor/sockets",
    "acceptor/connection",
    "acceptor/migration",
    "acceptor/admission",
    "acceptor/state",
    "loop",
    "message",
    "engine/jobs",
    "ring",
    "protocol",
  ],
  "shard/records": ["message", "engine", "engine/waiting", "engine/jobs", "ring", "protocol", "base"],
  "shard/sessions": [
    "message",
    "engine",
    "engine/waiting",
    "engine/queues",
    "engine/jobs",
    "ring",
    "protocol",
    "base",
  ],
  "shard/replies": [
    "shard/sessions",
    "shard/records",
    "message",
    "engine",
    "engine/tubes",
    "engine/jobs",
    "ring",
    "protocol",
    "base",
  ],
  "shard/intake": ["shard/replies", "shard/sessions", "message", "engine", "engine/jobs", "protocol", "base"],
  "shard/slices": [
    "shard/replies",
    "shard/sessions",
    "message",
    "engine",
    "engine/walks",
    "engine/tubes",
    "engine/jobs",
    "protocol",
    "base",
  ],
  "shard/transfer": [
    "shard/replies",
    "shard/sessions",
    "shard/records",
    "message",
    "engine",
    "engine/walks",
    "engine/transfer",
    "engine/jobs",
    "protocol",
    "base",
  ],
  "shard/commands": [
    "shard/transfer",
    "shard/slices",
    "shard/intake",
    "shard/replies",
    "shard/sessions",
    "shard/records",
    "message",
    "engine",
    "engine/walks",
    "engine/transfer",
    "engine/tubes",
    "engine/jobs",
    "protocol",
    "base",
  ],
  "shard/control": [
    "shard/transfer",
    "shard/slices",
    "shard/replies",
    "shard/records",
    "message",
    "engine",
    "engine/walks",
    "engine/transfer",
    "engine/waiting",
    "engine/tubes",
    "engine/jobs",
    "protocol",
    "base",
  ],
  shard: [
    "shard/control",
    "shard/commands",
    "shard/transfer",
    "shard/slices",
    "shard/intake",
    "shard/replies",
    "shard/sessions",
    "shard/records",
    "loop",
    "message",
    "engine",
    "engine/waiting",
    "engine/queues",
    "engine/jobs",
    "ring",
    "protocol",
    "base",
  ],
  "binlog/format": ["message", "base"],
  "binlog/disk": ["binlog/format", "base"],
  "binlog/books": ["binlog/disk", "binlog/format", "message", "base"],
  "binlog/live": ["binlog/books", "binlog/disk", "binlog/format", "message", "base"],
  "binlog/recovery": ["binlog/live", "binlog/books", "binlog/disk", "binlog/format", "message", "base"],
  "binlog/beanstalkd": [
    "binlog/recovery",
    "binlog/live",
    "binlog/books",
    "binlog/disk",
    "binlog/format",
    "message",
    "protocol",
    "base",
  ],
  binlog: [
    "binlog/beanstalkd",
    "binlog/recovery",
    "binlog/live",
    "binlog/disk",
    "binlog/format",
    "loop",
    "message",
    "ring",
    "base",
  ],
  "binlog/tools": [
    "binlog/beanstalkd",
    "binlog/recovery",
    "binlog/live",
    "binlog/books",
    "binlog/disk",
    "binlog/format",
    "message",
    "protocol",
    "base",
  ],
  replica: ["message", "ring", "base"],
  "http/link": [
    "acceptor",
    "acceptor/connection",
    "acceptor/state",
    "acceptor/replies",
    "loop",
    "message",
    "ring",
    "base",
  ],
  "http/state": ["http/link", "message", "ring", "base"],
  "http/queue": [
    "http/state",
    "http/link",
    "acceptor",
    "acceptor/connection",
    "acceptor/admission",
    "acceptor/state",
    "message",
    "ring",
    "protocol",
    "base",
  ],
  "http/api": ["http/queue", "message", "protocol", "base"],
  "http/metrics": ["http/queue", "http/state", "http/link", "message", "protocol", "base"],
  "http/api/limits": ["http/metrics", "http/api", "http/queue", "http/link", "base"],
  "http/api/access": ["http/api/limits", "http/api", "http/queue", "http/state", "access"],
  "dashboard/parts": [],
  "http/api/admin": [
    "dashboard/parts",
    "http/api/limits",
    "http/metrics",
    "http/api",
    "http/queue",
    "http/state",
    "http/link",
    "message",
    "access",
    "base",
  ],
  "http/api/bodies": ["http/api", "http/queue", "message", "base"],
  "http/api/app": [
    "http/api/bodies",
    "http/api/access",
    "http/api/limits",
    "http/api",
    "http/queue",
    "http/link",
  ],
  "http/api/jobs": [
    "http/api/bodies",
    "http/api/access",
    "http/api/limits",
    "http/api",
    "http/queue",
    "http/link",
    "message",
    "protocol",
    "ring",
    "access",
  ],
  "http/api/tubes": [
    "http/api/jobs",
    "http/api/bodies",
    "http/api/admin",
    "http/api/limits",
    "http/api",
    "http/queue",
    "http/state",
    "http/link",
    "message",
    "ring",
    "base",
  ],
  "http/api/dashboard": [
    "http/api/tubes",
    "http/api/jobs",
    "http/api/admin",
    "dashboard/parts",
    "http/api/access",
    "http/api",
    "http/queue",
    "http/state",
    "message",
    "base",
  ],
  http: [
    "http/api/dashboard",
    "http/api/tubes",
    "http/api/jobs",
    "http/api/app",
    "http/api/admin",
    "http/api/access",
    "http/api/limits",
    "http/api",
    "http/queue",
    "http/state",
    "http/link",
    "acceptor/sockets",
    "acceptor/connection",
    "acceptor/admission",
    "acceptor/state",
    "loop",
    "message",
    "ring",
    "access",
  ],
  threads: [
    "http",
    "replica",
    "binlog",
    "shard",
    "acceptor",
    "acceptor/sockets",
    "acceptor/admission",
    "loop",
    "message",
  ],
  "dashboard/pages": ["dashboard/parts"],
  dashboard: ["dashboard/pages", "dashboard/parts"],
  client: [],
  cli: ["client"],
  "cli/commands": ["cli", "client", "base"],
  "server/logging": [],
  "server/options": [
    "server/logging",
    "http",
    "replica",
    "binlog/format",
    "acceptor",
    "acceptor/admission",
    "message",
    "access",
    "config",
    "protocol",
    "base",
  ],
  "server/group": ["server/options", "threads", "replica", "message", "ring"],
  "server/lifecycle": ["server/options", "server/logging", "binlog", "ring", "config"],
  "server/listeners": ["server/options", "threads", "acceptor/sockets", "acceptor/admission", "access"],
  "server/tools": [
    "server/listeners",
    "server/group",
    "server/options",
    "cli/commands",
    "replica",
    "binlog/tools",
    "access",
    "config",
  ],
  server: [
    "server/tools",
    "server/listeners",
    "server/lifecycle",
    "server/group",
    "server/options",
    "server/logging",
    "threads",
    "http",
    "binlog",
    "shard",
    "acceptor",
    "acceptor/admission",
    "acceptor/state",
    "loop",
    "message",
    "ring",
    "config",
  ],
};

/** Rooms without a clock, a random source and any input or output. */
const PURE_ROOMS = ["base", "protocol", "engine"];

/** What a pure room may read of its surroundings, once at the start. */
const PURE_READ = 'process.env["RUNNERBEAN_CHECKED"]';

const IMPURE =
  /\b(?:Date\.now|new Date\b|performance\b|process\b|setTimeout|setInterval|setImmediate|queueMicrotask|Math\.random|crypto\b|console\b|fetch\b|Worker\b|require\()/;

interface Keeper {
  readonly hazard: string;
  readonly pattern: RegExp;
  /** Paths below src (or bench/) that may do it: a room, or a file. */
  readonly keepers: readonly string[];
}

const moduleImport = (name: string): RegExp => new RegExp(`["'](?:node:)?${name}(?:/[a-z]+)?["']`);

const KEEPERS: readonly Keeper[] = [
  { hazard: "Atomics", pattern: /\bAtomics\b/, keepers: ["ring/", "uring/"] },
  { hazard: "node:ffi", pattern: moduleImport("ffi"), keepers: ["uring/kernel.ts"] },
  {
    hazard: "node:net",
    pattern: moduleImport("net"),
    keepers: [
      "acceptor/",
      "http/http-thread.ts",
      "replica/peer-address.ts",
      "server/listeners/listen-address.ts",
      "server/logging/line-sink.ts",
      "client/",
      "cli/proxy.ts",
    ],
  },
  {
    hazard: "node:fs",
    pattern: moduleImport("fs"),
    keepers: [
      "binlog/disk/",
      "http/metrics/process-files.ts",
      "http/http-thread.ts",
      // The dashboard's files, once at its start.
      "http/api/dashboard/dashboard-assets.ts",
      // Files that the operator names.
      "binlog/tools/tools.ts",
      // Credentials for the log servers.
      "replica/jetstream-log.ts",
      "server/options/operator-file.ts",
      "server/lifecycle/switch-user.ts",
      "server/listeners/listen-address.ts",
      "server/lifecycle/descriptor-limit.ts",
      "server/options/usable-cores.ts",
      "server/logging/line-sink.ts",
      "server/listeners/token-store.ts",
      "cli/target.ts",
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
      "binlog/shard-feed.ts",
      "binlog/following.ts",
      "replica/thread.ts",
      "threads/start-threads.ts",
      "server/server.ts",
    ],
  },
  { hazard: "node:sqlite", pattern: moduleImport("sqlite"), keepers: ["binlog/disk/directory-lock.ts"] },
  { hazard: "fastify", pattern: moduleImport("fastify"), keepers: ["http/api/"] },
  { hazard: "piscina", pattern: moduleImport("piscina"), keepers: ["binlog/recovery/"] },
  {
    hazard: "node:tls",
    pattern: moduleImport("tls"),
    keepers: ["acceptor/sockets/tls-sockets.ts", "acceptor/sockets/tls-context.ts", "client/"],
  },
  { hazard: "ipaddr.js", pattern: /["']ipaddr\.js["']/, keepers: ["access/"] },
  { hazard: "lit-html and uPlot", pattern: /from ["'](?:lit-html|uplot)/, keepers: ["dashboard/"] },
  { hazard: "smol-toml", pattern: moduleImport("smol-toml"), keepers: ["config/"] },
  { hazard: "NATS", pattern: /["']@nats-io\//, keepers: ["replica/jetstream-log.ts"] },
  // Not even Node's internals need one: `socket as Socket & { _handle }` names what is missing.
  { hazard: "a cast through unknown", pattern: /\bas unknown as\b/, keepers: [] },
  {
    hazard: "child processes",
    pattern: moduleImport("child_process"),
    keepers: ["server/", "cli/commands/reserve.ts"],
  },
];

interface Source {
  /** Below src, as `engine/engine.ts`. */
  readonly path: string;
  readonly text: string;
}

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']/g;

/** A line without its comment; a keeper may be named in prose. */
const withoutComment = (line: string): string =>
  line.replace(/(^|\s)\/\/.*$/, "").replace(/^\s*(?:\/\*|\*).*$/, "");

/** The room of a file, or what is above src. */
const roomOf = (path: string): string => (path.startsWith("..") ? ".." : dirname(path));

/** What is wrong with an import of a file. */
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

/** What is wrong with a file, each with file and line. */
function violations({ path, text }: Source): string[] {
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
function circles(files: readonly Source[]): string[] {
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

const SRC = fileURLToPath(new URL("../../src", import.meta.url));

function sources(): Source[] {
  return readdirSync(SRC, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => {
      const file = join(entry.parentPath, entry.name);
      return { path: relative(SRC, file), text: readFileSync(file, "utf8") };
    });
}

describe("rooms", () => {
  it("import in one direction, and each hazard stays with its keeper", () => {
    const all = sources();
    assert.ok(all.length > 50, "the sources are found");
    assert.deepEqual(all.flatMap(violations), []);
  });

  it("are all known", () => {
    const rooms = new Set(sources().map(({ path }) => roomOf(path)));
    assert.deepEqual([...rooms].sort(), Object.keys(MAY_IMPORT).sort());
  });

  it("have their unit tests in a folder of the same name", () => {
    const unit = fileURLToPath(new URL("../unit/", import.meta.url));
    const folders = readdirSync(unit, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => relative(unit, join(entry.parentPath, entry.name)));
    assert.ok(folders.length > 5, "the unit tests are found");
    assert.deepEqual(
      folders.filter((folder) => !(folder in MAY_IMPORT)),
      [],
    );
  });

  it("import each other in no circle", () => {
    const rooms = Object.keys(MAY_IMPORT);
    for (const [room, others] of Object.entries(MAY_IMPORT)) {
      for (const other of others) assert.ok(rooms.indexOf(other) < rooms.indexOf(room), `${room}, ${other}`);
      for (const other of others)
        assert.ok(rooms.includes(other), `${room} may import ${other}, which is none`);
    }
  });

  it("of the log have no circle of imports between files", () => {
    assert.deepEqual(circles(sources()), []);
  });
});

describe("the check of the rooms (canary)", () => {
  const cases: [name: string, path: string, line: string][] = [
    ["an import against the direction", "base/x.ts", 'import { Op } from "../protocol/op.ts";'],
    ["an import of a type against the direction", "engine/x.ts", 'import type { A } from "../message/a.ts";'],
    [
      "an import of another kind of thread",
      "acceptor/x.ts",
      'import { ShardCore } from "../shard/shard-core.ts";',
    ],
    ["a re-export against the direction", "ring/x.ts", 'export { Op } from "../protocol/op.ts";'],
    ["an import at run time against the direction", "shard/x.ts", 'await import("../server/log.ts");'],
    ["the engine and a ring", "engine/x.ts", 'import { EMPTY } from "../ring/ring-reader.ts";'],
    ["an import from outside of src", "server/x.ts", 'import { a } from "../../test/a.ts";'],
    ["a clock in a pure room", "engine/x.ts", "const now = performance.now();"],
    ["a date in a pure room", "base/x.ts", "const now = Date.now();"],
    ["chance in a pure room", "protocol/x.ts", "const id = Math.random();"],
    ["a timer in a pure room", "engine/x.ts", "setTimeout(() => {}, 1);"],
    ["a module of Node in a pure room", "base/x.ts", 'import { EOL } from "node:os";'],
    ["Atomics out of the rings", "shard/x.ts", "Atomics.notify(words, 0);"],
    ["net out of the acceptor", "shard/x.ts", 'import { Socket } from "node:net";'],
    ["fs out of the log", "acceptor/x.ts", 'import { readFile } from "node:fs/promises";'],
    ["fs by its old name", "server/server.ts", 'import fs from "fs";'],
    ["threads anywhere", "message/x.ts", 'import { Worker } from "node:worker_threads";'],
    ["piscina out of the log", "server/x.ts", 'import { Piscina } from "piscina";'],
    ["the log in use and its recovery", "binlog/live/x.ts", 'import { a } from "../recovery/scan-log.ts";'],
    ["a room of the log and its thread", "binlog/tools/x.ts", 'import { a } from "../open-binlog.ts";'],
    ["the thread of the log and its tools", "binlog/thread.ts", 'import { dump } from "./tools/tools.ts";'],
    [
      "a room within the log from outside",
      "server/x.ts",
      'import { Storage } from "../binlog/live/storage.ts";',
    ],
    ["a room that nobody knows", "binlog/x/x.ts", 'import { a } from "../format/segment-format.ts";'],
    ["fs out of the disk", "binlog/live/x.ts", 'import * as fs from "node:fs";'],
    ["a second way to lock", "binlog/recovery/x.ts", 'import { DatabaseSync } from "node:sqlite";'],
    ["foreign functions", "acceptor/x.ts", 'import { dlopen } from "node:ffi";'],
    ["a second server of HTTP", "server/x.ts", 'import Fastify from "fastify";'],
    ["a cast through unknown", "base/memory.ts", "const bytes = memory as unknown as Uint8Array;"],
    ["processes", "shard/x.ts", 'import { spawn } from "node:child_process";'],
  ];
  for (const [name, path, line] of cases) {
    it(`finds ${name}, with file and line`, () => {
      const found = violations({ path, text: `// prose\n\n${line}\n` });
      assert.ok(found.length >= 1, "nothing was found");
      for (const each of found) assert.ok(each.startsWith(`src/${path}:3: `), each);
    });
  }

  it("finds circles of imports between files, also through others or as types", () => {
    const line = (name: string): string => `import type { A } from "${name}";`;
    const ring: Source[] = [
      { path: "binlog/thread.ts", text: line("./live/a.ts") },
      { path: "binlog/live/a.ts", text: `import {\n  b,\n} from "./b.ts";` },
      { path: "binlog/live/b.ts", text: `${line("./c.ts")}\n${line("../format/d.ts")}` },
      { path: "binlog/live/c.ts", text: line("./a.ts") },
      { path: "binlog/format/d.ts", text: `// ${line("../live/a.ts")}` },
    ];
    assert.deepEqual(circles(ring), [
      "binlog/live/a.ts -> binlog/live/b.ts -> binlog/live/c.ts -> binlog/live/a.ts",
    ]);
    assert.deepEqual(circles(ring.slice(0, 3)), []);
  });

  it("accepts allowed directions, keepers and prose", () => {
    const good: Source[] = [
      {
        path: "engine/a.ts",
        text: 'import { assert } from "../base/assert.ts";\nimport { b } from "./b.ts";',
      },
      { path: "ring/a.ts", text: "Atomics.load(words, 0);" },
      {
        path: "shard/a.ts",
        text: '// Atomics.wait would block here\n/** node:fs is not for us: "node:fs" */',
      },
      { path: "acceptor/a.ts", text: 'import { createServer } from "node:net";' },
      {
        path: "binlog/disk/a.ts",
        text: 'import { open } from "node:fs/promises";\nimport { segmentName } from "../format/b.ts";',
      },
      {
        path: "binlog/recovery/a.ts",
        text: 'import { Piscina } from "piscina";\nimport { Storage } from "../live/b.ts";\nimport { c } from "../../message/c.ts";',
      },
    ];
    assert.deepEqual(good.flatMap(violations), []);
  });
});
