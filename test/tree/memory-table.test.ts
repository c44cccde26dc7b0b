// Checks that src/memory.md has a row, with a bound, for every container that lives in the rooms which serve clients.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BYTES_OF } from "../../src/engine/memory-use.ts";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));
const ROOMS = ["access", "acceptor", "binlog", "engine", "http", "shard"];
/** They run at a start or by hand, when no client is served. */
const NOT_SERVING = ["binlog/beanstalkd/", "binlog/recovery/", "binlog/tools/"];
/** A field that begins empty and grows. */
const CONTAINER =
  /^ {2}(?:protected )?(?:readonly )?(#?\w+)(?:: [^=]+)? = (?:new (?:Map|Set|RecentMap)\b|\[\];)/;
const ROW = /^\| `([^`]+)` ((?:`[^`]+` ?)+)\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/;

/** Names of fields, as `engine/engine.ts #sessions`. */
function containersOf(path: string, text: string): string[] {
  const lines = text.split("\n").map((line) => CONTAINER.exec(line)?.[1]);
  return lines.filter((name) => name !== undefined).map((name) => `${path} ${name}`);
}

interface Row {
  readonly fields: readonly string[];
  readonly bound: string;
  readonly counted: string;
}

function rowsOf(text: string): Row[] {
  return text.split("\n").flatMap((line) => {
    const [, path, names, , bound, counted] = ROW.exec(line) ?? [];
    if (path === undefined) return [];
    const fields = [...names!.matchAll(/`([^`]+)`/g)].map(([, name]) => `${path} ${name}`);
    return [{ fields, bound: bound!.trim(), counted: counted!.trim() }];
  });
}

const containers = ROOMS.flatMap((room) =>
  readdirSync(join(SRC, room), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !NOT_SERVING.some((folder) => relative(SRC, file).startsWith(folder)))
    .flatMap((file) => containersOf(relative(SRC, file), readFileSync(file, "utf8"))),
);
const rows = rowsOf(readFileSync(join(SRC, "memory.md"), "utf8"));

describe("src/memory.md", () => {
  it("has a row for each container, and none for others", () => {
    assert.ok(containers.length > 100, "the containers are found");
    assert.deepEqual(rows.flatMap(({ fields }) => fields).sort(), [...new Set(containers)].sort());
  });

  it("says a bound for each, and what counts it is counted", () => {
    for (const { fields, bound, counted } of rows) {
      assert.ok(bound.length > 3, `${fields[0]}: its bound`);
      assert.match(counted, /^(?:no: |yes: |as `)/, `${fields[0]}: whether it is counted`);
      for (const [, kind] of counted.matchAll(/`(\w+)`/g))
        assert.ok(kind! in BYTES_OF, `${fields[0]}: ${kind} is counted`);
    }
    const told = rows.map(({ counted }) => counted).join(" ");
    for (const kind of Object.keys(BYTES_OF)) assert.ok(told.includes(`\`${kind}\``), `${kind} has a row`);
  });
});

describe("the check of the table (canary)", () => {
  for (const line of [
    "  readonly #seen = new Map<string, number>();",
    "  #line: string[] = [];",
    "  readonly ids: Set<number> = new Set();",
    "  readonly #ids = new RecentMap<number, true>(IDS_MAX);",
  ])
    it(`finds a new field: ${line.trim()}`, () => {
      const found = containersOf("engine/x.ts", `class X {\n${line}\n}\n`);
      assert.equal(found.length, 1);
      assert.ok(!rows.some(({ fields }) => fields.includes(found[0]!)));
    });

  it("does not take what a function has for a field", () => {
    assert.deepEqual(containersOf("engine/x.ts", "    const seen = new Map<string, number>();\n"), []);
  });
});
