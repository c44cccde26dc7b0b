// Checks that src/memory-bounds.md has a row for every container that lives in the rooms which
// serve clients, and that its bounds are those of the sources.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BYTES_OF } from "../../src/engine/engine.ts";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));
const ROOMS = ["access", "acceptor", "binlog", "engine", "http", "message", "shard"];
/** They run at a start or by hand, when no client is served. */
const NOT_SERVING = ["binlog/beanstalkd/", "binlog/recovery/", "binlog/tools/"];
/** A field of a class: its name, its type and its first value. */
const FIELD =
  /^ {2}(?:(?:static|protected|private|readonly) )*(#?\w+)(?:: ((?:[^=]|=>)+?))?(?: = (.+?)|;)?;?$/;
/** The type of a container that can grow. Read-only ones are views, or stay as they are. */
const TYPE = /^(?:(?:Map|Set|RecentMap)<|(?!readonly )(?:[^=]|\(.*\))*\[\](?: \| undefined)?$)/;
const VALUE = /^(?:new (?:Map|Set|RecentMap|Array)\b|\[\]$|.*=> \[\]\)$)/;
const ROW = /^\| `([^`]+)` ((?:`[^`]+` ?)+)\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/;

/** Names of fields, as `engine/engine.ts #sessions`. */
function containersOf(path: string, text: string): string[] {
  let isInClass = false;
  return text.split("\n").flatMap((line) => {
    if (/^\S/.test(line)) isInClass = /^(?:export )?(?:abstract )?class /.test(line);
    const [, name, type = "", value = ""] = (isInClass && FIELD.exec(line)) || [];
    return name !== undefined && (TYPE.test(type) || VALUE.test(value)) ? [`${path} ${name}`] : [];
  });
}

const UNITS: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1 << 20, GiB: 1 << 30, minutes: 60_000 };
/** A number of a bound with its words, and behind them its constant. */
const NUMBER = /([0-9][0-9,]*)( (?:KiB|MiB|GiB|minutes))?([^0-9(;]*\(`(?:([a-z/.-]+) )?(\w+)`\))?/g;

/**
 * The value of a number in a file: a product, perhaps of other constants of the file or of what it
 * imports.
 */
function constantOf(path: string, name: string): number {
  const text = readFileSync(join(SRC, path), "utf8");
  const constant = `(?:export )?const ${name}(?:: number)? = ([^;]+);`;
  const [, ofConstant, ofField] = new RegExp(`^(?:${constant}|  ${name}: ([0-9_]+),)$`, "m").exec(text) ?? [];
  const value = ofConstant ?? ofField;
  if (value !== undefined) return computed(value, (each) => constantOf(path, each));
  const [, from] = new RegExp(`^import \\{[^}]*\\b${name}\\b[^}]*\\} from "(\\..+)";`, "m").exec(text) ?? [];
  assert.ok(from !== undefined, `${path} has ${name}`);
  return constantOf(join(dirname(path), from), name);
}

function computed(expression: string, constantNamed: (name: string) => number): number {
  return expression
    .split(" * ")
    .map((factor) => {
      const [base, ...shifts] = factor.split(" << ").map((each) => {
        const digits = each.replaceAll("_", "");
        return /^(?:[0-9]+|0x[0-9a-f]+)$/.test(digits) ? Number(digits) : constantNamed(each);
      });
      return shifts.reduce((value, shift) => value * 2 ** shift, base!);
    })
    .reduce((product, factor) => product * factor, 1);
}

/** Returns what is wrong with the numbers of a row's bound. */
function wrongNumbers(path: string, bound: string): string[] {
  return [...bound.matchAll(NUMBER)].flatMap(([all, digits, unit = "", , other = path, name]) => {
    if (name === undefined) return [`${path}: ${all.trim()}: no constant is named`];
    const stated = Number(digits!.replaceAll(",", "")) * (UNITS[unit.trim()] ?? 1);
    const value = constantOf(other, name);
    return value === stated ? [] : [`${path}: ${all.trim()}: ${other} has ${name} = ${value}`];
  });
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
const rows = rowsOf(readFileSync(join(SRC, "memory-bounds.md"), "utf8"));

describe("src/memory-bounds.md", () => {
  it("has a row for each container, and no other row", () => {
    assert.ok(containers.length > 100, "the containers are found");
    assert.deepEqual(rows.flatMap(({ fields }) => fields).sort(), [...new Set(containers)].sort());
  });

  it("names a bound for each container, and its counter exists", () => {
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

describe("the numbers of src/memory-bounds.md", () => {
  it("are the values of the constants that it names", () => {
    const wrong = rows.flatMap(({ fields, bound }) => wrongNumbers(fields[0]!.split(" ")[0]!, bound));
    assert.deepEqual(wrong, []);
    assert.ok(rows.filter(({ bound }) => /[0-9]/.test(bound)).length > 40);
  });
});

describe("docs/security.md", () => {
  it("has the bytes that --max-memory counts", () => {
    const page = readFileSync(join(SRC, "../docs/security.md"), "utf8");
    const figures = /has a fixed figure:\n\n([\s\S]*?)\n\n/.exec(page)?.[1]?.match(/\d+/g)?.map(Number);
    const { job, extras, tube, setting, watch, group, bucket, retiredLimiter, key } = BYTES_OF;
    assert.deepEqual(figures, [job, extras, tube, setting, watch, group, bucket, retiredLimiter, key]);
  });
});

describe("the check of the table (canary)", () => {
  for (const [bound, wrong] of [
    ["1,000 lines (`ITEMS_MAX`)", ""],
    ["1,001 lines (`ITEMS_MAX`)", "has ITEMS_MAX = 1000"],
    ["1,000 lines, one per connection", "no constant"],
    ["8 MiB (`engine/jobs/body-arena.ts SPARE_BYTES_MAX`)", ""],
    ["8 KiB (`engine/jobs/body-arena.ts SPARE_BYTES_MAX`)", "= 8388608"],
    [
      "2,000 (`shard/sessions/tube-setter.ts CHANGES_MAX`), 2,001 (`shard/sessions/tube-setter.ts CHANGES_MAX`)",
      "2,001",
    ],
  ] as const)
    it(`compares ${bound}`, () => {
      const found = wrongNumbers("acceptor/acceptor.ts", bound);
      assert.equal(found.length, wrong === "" ? 0 : 1);
      assert.ok(wrong === "" || found[0]!.includes(wrong), `${found[0]}`);
    });

  it("fails for a constant that is not there", () => {
    assert.throws(() => wrongNumbers("acceptor/acceptor.ts", "7 (`NONE_MAX`)"), /has NONE_MAX/);
  });

  for (const line of [
    "  readonly #seen = new Map<string, number>();",
    "  #line: string[] = [];",
    "  readonly ids: Set<number> = new Set();",
    "  readonly #ids = new RecentMap<number, true>(IDS_MAX);",
    "  readonly #posted: Request[][];",
    "  #found: Map<string, number> | undefined;",
    "  readonly #waiting: (() => void)[] = [];",
    "  readonly #perSize = SIZES.map(() => []);",
    "  static readonly #kept: string[] = new Array<string>(64);",
  ])
    it(`finds a new field: ${line.trim()}`, () => {
      const found = containersOf("engine/x.ts", `class X {\n${line}\n}\n`);
      assert.equal(found.length, 1);
      assert.ok(!rows.some(({ fields }) => fields.includes(found[0]!)));
    });

  for (const line of [
    "    const seen = new Map<string, number>();",
    "  readonly #ports: readonly Port[];",
    "  readonly #byName: ReadonlyMap<string, Port>;",
    "  readonly #send: (items: Item[]) => void;",
  ])
    it(`takes no other line for such a field: ${line.trim()}`, () => {
      assert.deepEqual(containersOf("engine/x.ts", `class X {\n${line}\n}\n`), []);
    });
});
