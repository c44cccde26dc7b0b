// Checks that every script of package.json and every command on a page works: a small form of it
// ends as the page says, or a named test covers it. `npm run documented` runs the long ones too.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { busyness } from "../support/machine/busyness.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { commandsIn } from "../support/page-commands.ts";
import { TEST_ENV } from "../support/server/server-process.ts";
import { skipVariant } from "../support/whole.ts";
import { ROWS, type Row } from "./documented-commands.ts";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PAGES = ["README.md", "CONTRIBUTING.md", "{docs,test,bench,native-bench}/**/*.md", "src/**/README.md"];
const read = (path: string): string => readFileSync(`${ROOT}${path}`, "utf8");
const SCRIPTS = Object.keys(JSON.parse(read("package.json")).scripts).map((name) =>
  name === "start" || name === "test" ? `npm ${name}` : `npm run ${name}`,
);
/** The long ones, too. */
const isWhole = process.env["DOCUMENTED"] === "whole";
/** Longer than any small form takes. `timeout` ends one that hangs, with its children. */
const COMMAND_SECONDS = String(Math.ceil(200 * busyness()));

/** The first page that shows each command. */
const shown = new Map<string, string>();
for (const page of globSync(PAGES, { cwd: ROOT }).sort())
  for (const command of commandsIn(read(page))) if (!shown.has(command)) shown.set(command, page);
for (const script of SCRIPTS) if (!shown.has(script)) shown.set(script, "package.json");

const rowOf = (command: string): Row | undefined => ROWS.find(({ match }) => match.test(command));

describe("documented commands", () => {
  it("are found in the pages, and a row covers each", () => {
    assert.ok(shown.size > 150, `${shown.size} commands`);
    const unknown = [...shown].filter(([command]) => rowOf(command) === undefined);
    assert.deepEqual(
      unknown.map(([command, page]) => `${page}: ${command}`),
      [],
      "say in test/tree/documented-commands.ts how they are tried",
    );
  });

  it("leave no row without a command", () => {
    const used = new Set([...shown.keys()].map(rowOf));
    assert.deepEqual(
      ROWS.filter((row) => !used.has(row)).map(({ match }) => `${match}`),
      [],
    );
  });

  it("are played by the tests in their rows", () => {
    for (const row of ROWS) {
      if (!("by" in row)) continue;
      const text = read(row.by);
      for (const words of row.has) assert.ok(text.includes(words), `${row.by} has ${words}`);
    }
  });

  /** Each small form once, under the page that shows it first. */
  const forms = new Map<string, { readonly page: string; readonly row: Extract<Row, { small: unknown }> }>();
  for (const [command, page] of shown) {
    const row = rowOf(command);
    if (row === undefined || !("small" in row) || (!isWhole && row.isLong === true)) continue;
    const form = row.small(command);
    if (!forms.has(form)) forms.set(form, { page, row });
  }
  const pages = Map.groupBy(forms, ([, { page }]) => page);
  let count = 0;
  for (const [index, [page, all]] of [...pages].entries()) {
    describe(`of ${page}`, () => {
      before(() => tell(`${page} (${index + 1} of ${pages.size}): ${all.length} commands`));
      for (const [command, { row }] of all) {
        it(command, { skip: skipVariant(count++, 2) }, async (t) => {
          if (!canRun(t, NEEDS.ours, ...(row.needs ?? []).map((need) => NEEDS[need]))) return;
          const startedAt = performance.now();
          const { stdout, stderr } = await run("timeout", [COMMAND_SECONDS, "bash", "-c", command], {
            cwd: ROOT,
            env: TEST_ENV,
          });
          assert.match(stdout + stderr, row.says);
          tell(`  ${command}: ${Math.round((performance.now() - startedAt) / 1000)} s`);
        });
      }
    });
  }
});

/** Says how far a long run is. */
function tell(what: string): void {
  if (isWhole) console.log(`NOTE ${what}`);
}

describe("the help of each script", () => {
  /** Take no arguments. */
  const WITHOUT = ["packaging/bundle/build.ts", "packaging/client/build.ts", "packaging/image/build.ts"];
  const programs = Object.values<string>(JSON.parse(read("package.json")).scripts).flatMap((script) =>
    [...script.matchAll(/(?:test|bench|packaging)\/\S+\.ts\b/g)].map(([program]) => program),
  );
  for (const [index, program] of [...new Set(programs)].entries()) {
    if (WITHOUT.includes(program)) continue;
    it(`is told by ${program} --help`, { skip: skipVariant(index, 3) }, async () => {
      const { stdout } = await run("bin/node", [program, "--help"], { cwd: ROOT, env: TEST_ENV });
      assert.match(stdout, /^Usage: npm (?:run )?\S+ --/);
      assert.match(stdout, /^Options:$/m);
    });
  }
});

describe("the search for commands (canary)", () => {
  it("finds commands in blocks and lines, and nothing else", () => {
    const page = [
      "Say `npm run new -- --seeds 2`, not `runs`, or `npm\\|x`.",
      "",
      "    npm test -- rooms   # a comment",
      "    some output",
      "```sh",
      "$ runnerbean put mail x",
      "```",
      "```toml",
      "npm = 1",
      "```",
    ].join("\n");
    assert.deepEqual(commandsIn(page), [
      "npm run new -- --seeds 2",
      "npm test -- rooms",
      "runnerbean put mail x",
    ]);
  });

  it("has no row for a new script", () => assert.equal(rowOf("npm run new -- --seeds 2"), undefined));
});
