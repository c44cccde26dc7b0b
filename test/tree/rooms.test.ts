// Checks the imports between rooms (the tables "Rooms" in src/README.md and src/binlog/README.md),
// and that each hazard stays with its keeper.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { MAY_IMPORT } from "./rooms/room-imports.ts";
import { circles, roomOf, type Source, violations } from "./rooms/room-rules.ts";

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
    ["a cast through unknown", "base/bytes.ts", "const bytes = memory as unknown as Uint8Array;"],
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
      { path: "binlog/live/b.ts", text: `${line("./c.ts")}\n${line("../segments/d.ts")}` },
      { path: "binlog/live/c.ts", text: line("./a.ts") },
      { path: "binlog/segments/d.ts", text: `// ${line("../live/a.ts")}` },
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
        text: 'import { open } from "node:fs/promises";\nimport { segmentName } from "../../base/b.ts";',
      },
      {
        path: "binlog/recovery/a.ts",
        text: 'import { Piscina } from "piscina";\nimport { Storage } from "../live/b.ts";\nimport { c } from "../../message/c.ts";',
      },
    ];
    assert.deepEqual(good.flatMap(violations), []);
  });
});
