// Checks the documents against the repository: commands, tools and files exist, and the README's
// figures are those of docs/figures.md. Links: links.test.ts.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { allCommands } from "../../src/server/tools/subcommands.ts";
import { LINK, localPath } from "../support/document-links.ts";
import { checkToolLines } from "../support/tool-lines.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DOCUMENTS = globSync(["*.md", "{docs,src,test,bench,native-bench}/**/*.md"], { cwd: ROOT }).sort();
const TESTS = globSync(["test/**/*.test.ts", "bench/**/*.test.ts"], { cwd: ROOT });
/** Files that documents name and the repository does not contain. */
const FOREIGN = ["testserv.c"];
const FILES = globSync(["*", "{.ci,.github,bin,deploy,docs,src,test,bench,native-bench}/**/*"], {
  cwd: ROOT,
});
const SCRIPTS = Object.keys(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).scripts);

/** "`engine/engine.ts`": a file, by its path or the end of it. */
const FILE = /`([\w./-]+\.(?:ts|md|c|h|sh))`/g;
/** "npm run bench", "npm run bench:native". */
const SCRIPT = /\bnpm run ([\w:-]+)/g;
/** "npm test -- kill holes", up to a comment, the end of the code or of the line. */
const CHOSEN_TESTS = /\bnpm test -- ([\w ./-]+)/g;
/** "node bench/report-from.ts". */
const PROGRAM = /\bnode (?:-[\w=-]+ )*([\w/.-]+\.ts)\b/g;

interface Found {
  readonly wrong: string[];
  files: number;
  commands: number;
  tools: number;
}

const nothingFound = (): Found => ({ wrong: [], files: 0, commands: 0, tools: 0 });
const TOOLS = await allCommands();

/** Paths are from the root of the repository. */
function checkDocument(path: string, text: string, found: Found): void {
  const wrong = (index: number, what: string): void => {
    found.wrong.push(`${path}:${text.slice(0, index).split("\n").length}: ${what}`);
  };
  for (const { index, 1: file } of path === "CHANGELOG.md" ? [] : text.matchAll(FILE)) {
    found.files++;
    const end = `/${file!.replace(/^(?:\.\.?\/)+/, "")}`;
    if (!FOREIGN.includes(file!) && !FILES.some((known) => `/${known}`.endsWith(end)))
      wrong(index, `there is no ${file}`);
  }
  for (const { index, 1: script } of text.matchAll(SCRIPT)) {
    found.commands++;
    if (!SCRIPTS.includes(script!)) wrong(index, `package.json has no script ${script}`);
  }
  for (const { index, 1: words } of text.matchAll(CHOSEN_TESTS)) {
    for (const word of words!.trim().split(/ +/)) {
      found.commands++;
      if (!TESTS.some((test) => test.includes(word))) wrong(index, `no test file has ${word} in its path`);
    }
  }
  found.tools += checkToolLines(text, TOOLS, wrong);
  for (const { index, 1: program } of text.matchAll(PROGRAM)) {
    found.commands++;
    if (!existsSync(join(ROOT, program!))) wrong(index, `there is no ${program}`);
  }
}

/** Cells of a table. */
const rowsOf = (page: string): string[][] =>
  page.split("\n").map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .slice(1, -1),
  );

/**
 * Checks rows "wish | asked for in | answer | shown by": a linked file contains each word in code
 * and each test in quotes.
 */
function wishMistakes(page: string): string[] {
  return rowsOf(page).flatMap(([wish = "", , answer = "", tests = ""]) => {
    const files = [...tests.matchAll(LINK)].map(([, target]) =>
      readFileSync(join(ROOT, localPath("docs/wishes.md", target!)!), "utf8"),
    );
    if (files.length === 0) return [];
    const named = [...answer.matchAll(/`([^`]+)`/g), ...tests.matchAll(/"([^"]+)"/g)].map(
      ([, words]) => words!,
    );
    return named
      .filter((words) => !files.some((text) => text.includes(words)))
      .map((words) => `${wish}: nothing linked has ${words}`);
  });
}

describe("documents", () => {
  it("name only files and commands that exist", () => {
    const found = nothingFound();
    for (const path of DOCUMENTS) checkDocument(path, readFileSync(join(ROOT, path), "utf8"), found);
    assert.deepEqual(found.wrong, []);
    assert.ok(found.files > 100, `the files are found: ${found.files}`);
    assert.ok(found.commands > 50, `the commands are found: ${found.commands}`);
    assert.ok(found.tools > 30, `the tools are found: ${found.tools}`);
  });

  it("list every tool, and mark those that use HTTP", () => {
    const page = readFileSync(join(ROOT, "docs/command-line.md"), "utf8");
    for (const command of TOOLS.commands) {
      const row = page
        .split("\n")
        .find((line) => line.startsWith("| ") && line.includes(`\`${command.name()}`));
      assert.ok(row !== undefined, command.name());
      if (command.description().endsWith("(over HTTP)"))
        assert.ok(row.includes("| over HTTP: "), command.name());
    }
  });

  it("claim for each wish only what the linked tests show", () => {
    const page = readFileSync(join(ROOT, "docs/wishes.md"), "utf8");
    assert.deepEqual(wishMistakes(page), []);
    assert.ok(rowsOf(page).filter(([, , , tests]) => tests?.includes("](")).length > 20);
    const row = '| a | b | `ttl=` | [x](../test/transcripts/ext-ttl.txt): "set-tube" |';
    assert.deepEqual(wishMistakes(row), []);
    assert.deepEqual(wishMistakes(row.replace("ttl=", "clear-tube")), ["a: nothing linked has clear-tube"]);
    assert.deepEqual(wishMistakes(row.replace("set-tube", "no such")), ["a: nothing linked has no such"]);
  });
});

describe("the check of the documents (canary)", () => {
  const bad: [name: string, line: string][] = [
    ["a file that does not exist", "`engine/nowhere.ts`"],
    ["a file in another folder", "`ring/engine.ts`"],
    ["a script that does not exist", "    npm run nothing"],
    ["the second of two words that choose no test", "`npm test -- rooms nothing-at-all`"],
    ["a tool that does not exist", "    runnerbean nothing mail"],
    ["a tool of a tool that does not exist", "`runnerbean token nothing`"],
    ["an option that a tool does not have", "    runnerbean move a b --state ready --nothing"],
    ["a value that an option does not have", "Say runnerbean tubes --sort nothing"],
    ["a program that does not exist", "    bin/node bench/nothing.ts results.jsonl"],
  ];
  for (const [name, line] of bad) {
    it(`finds ${name}, with file and line`, () => {
      const found = nothingFound();
      checkDocument("PAGE.md", `# A heading\n${line}\n`, found);
      assert.equal(found.wrong.length, 1, found.wrong.join("\n"));
      assert.match(found.wrong[0]!, /^PAGE\.md:2: /);
    });
  }

  it("finds nothing in good ones", () => {
    const found = nothingFound();
    const good =
      "`engine/engine.ts`, `../engine/engine.ts`, `testserv.c`\n`npm test -- rooms`, `npm run lint`\n`runnerbean tubes --sort puts`, runnerbean nothing, `runnerbean reserve a -- sh --nothing`\n";
    checkDocument("PAGE.md", `# A heading\n${good}`, found);
    assert.deepEqual(found.wrong, []);
  });
});

describe("the README's figures", () => {
  /**
   * Rows of the table between the markers, each as cells by the column's heading, and the line that
   * names the machine.
   */
  function figures(path: string): { rows: Map<string, Map<string, string>>; machine: string } {
    const page = readFileSync(join(ROOT, path), "utf8");
    const text = /<!-- bench:begin -->\n([\s\S]*?)\n<!-- bench:end -->/.exec(page)?.[1] ?? "";
    const cells = text
      .split("\n")
      .filter((line) => line.startsWith("| "))
      .map((line) => line.split("|").map((cell) => cell.trim()));
    const [head = [], ...rows] = cells;
    const named = rows.map((row): [string, Map<string, string>] => [
      row[1]!,
      new Map(row.slice(2, -1).map((cell, column) => [head[column + 2]!, cell])),
    ]);
    return { rows: new Map(named), machine: text.split("\n").at(-1)! };
  }

  it("are rows of docs/figures.md", () => {
    const readme = figures("README.md");
    const all = figures("docs/figures.md");
    assert.ok(readme.rows.size >= 3, `${readme.rows.size} rows`);
    assert.match(readme.machine, /20\d\d-\d\d-\d\d/);
    assert.equal(readme.machine, all.machine);
    for (const [title, cells] of readme.rows) {
      for (const [column, cell] of cells)
        assert.equal(cell, all.rows.get(title)?.get(column), `${title}, ${column}`);
    }
  });
});
