// Checks the links of all Markdown documents, in the repository and in the published package.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { anchorsOf, LINK, localPath, withoutCode } from "../support/document-links.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DOCUMENTS = globSync(
  ["*.md", "llms.txt", "{.github,deploy,docs,src,test,bench,native-bench}/**/*.md"],
  {
    cwd: ROOT,
  },
).sort();
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

interface Link {
  /** Document and line. */
  readonly at: string;
  readonly target: string;
  /** In the repository; undefined for other sites. */
  readonly to: string | undefined;
}

/** Returns the links of a document: inline, by reference, and in HTML. */
function linksOf(path: string, page: string): Link[] {
  const text = withoutCode(page);
  const found = [LINK, /^\[[^\]]+\]: (\S+)$/gm, / (?:href|src)="([^"]+)"/g];
  return found
    .flatMap((pattern) => [...text.matchAll(pattern)])
    .map(({ index, 1: target }) => ({
      at: `${path}:${text.slice(0, index).split("\n").length}`,
      target: target!,
      to: localPath(path, target!),
    }));
}

/** Returns what is wrong with the links of a document. */
function mistakes(path: string, page: string): string[] {
  return linksOf(path, page).flatMap(({ at, target, to }) => {
    if (to === undefined) return [];
    if (to !== path && !existsSync(join(ROOT, to))) return [`${at}: there is no ${to}`];
    const anchor = target.split("#")[1];
    if (anchor === undefined) return [];
    const has = anchorsOf(to === path ? page : read(to)).has(anchor);
    return has ? [] : [`${at}: ${to} has no heading #${anchor}`];
  });
}

/** Returns the relative links of a packed document that lead to nothing in the package. */
function missingInPackage(path: string, page: string, packed: readonly string[]): string[] {
  return linksOf(path, page)
    .filter(({ target, to }) => to !== undefined && !/^[a-z]+:/.test(target))
    .filter(({ to }) => !packed.some((file) => file === to || file.startsWith(`${to!.replace(/\/$/, "")}/`)))
    .map(({ at, to }) => `${at}: ${to} is not in the package; link to the repository instead`);
}

describe("links of documents", () => {
  it("lead to files and headings that exist", () => {
    assert.deepEqual(
      DOCUMENTS.flatMap((path) => mistakes(path, read(path))),
      [],
    );
    const count = DOCUMENTS.reduce((sum, path) => sum + linksOf(path, read(path)).length, 0);
    assert.ok(count > 200, `the links are found: ${count}`);
  });

  it("lead to files that exist in the package, too", () => {
    const [report] = JSON.parse(
      execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
        cwd: ROOT,
        encoding: "utf8",
      }),
    );
    const packed: string[] = report.files.map(({ path }: { path: string }) => path);
    const documents = packed.filter((path) => path.endsWith(".md"));
    assert.ok(documents.length > 20, `the documents are packed: ${documents.length}`);
    assert.deepEqual(
      documents.flatMap((path) => missingInPackage(path, read(path), packed)),
      [],
    );
  });

  it("lead from the README to every document", () => {
    const reached = new Set(["README.md"]);
    for (const path of reached)
      for (const { to } of linksOf(path, read(path)))
        if (to !== undefined && DOCUMENTS.includes(to)) reached.add(to);
    assert.deepEqual(
      DOCUMENTS.filter((path) => !reached.has(path) && !path.startsWith(".github/")),
      [],
    );
  });
});

describe("docs/README.md", () => {
  it("is the table of contents: it has a link to each page beside and below it", () => {
    const linked = new Set(linksOf("docs/README.md", read("docs/README.md")).map(({ to }) => to));
    const pages = DOCUMENTS.filter((path) => path.startsWith("docs/") && path !== "docs/README.md");
    assert.ok(pages.length > 40, `the pages are found: ${pages.length}`);
    assert.deepEqual(
      pages.filter((path) => !linked.has(path)),
      [],
    );
  });
});

describe("the check of the links (canary)", () => {
  const blob = "https://github.com/runnerbean/runnerbean/blob/main";
  const bad: [name: string, line: string][] = [
    ["a link to a file that does not exist", "[x](docs/nowhere.md)"],
    ["a link that is right only in another folder", "[x](../README.md)"],
    ["a link to a heading that does not exist", "[x](CHANGELOG.md#nothing)"],
    ["a link to a heading of the same page that does not exist", "[x](#nothing)"],
    ["a link whose text continues on the next line", "[x\ny](docs/nowhere.md)"],
    ["a link by reference to a file that does not exist", "[x]: docs/nowhere.md"],
    ["an image that does not exist", '<img src="docs/nowhere.png">'],
    ["a link to the repository whose file does not exist", `[x](${blob}/docs/nowhere.md)`],
    ["a link to the repository whose heading does not exist", `[x](${blob}/docs/log.md#nothing)`],
  ];
  for (const [name, line] of bad) {
    it(`finds ${name}, with file and line`, () => {
      const wrong = mistakes("PAGE.md", `# A heading\n${line}\n`);
      assert.equal(wrong.length, 1, wrong.join("\n"));
      assert.match(wrong[0]!, /^PAGE\.md:2: /);
    });
  }

  it("accepts good links, other sites and examples", () => {
    const good = [
      "[x](docs/log.md#tools) [y](#a-heading-1) [z](https://nowhere.example/#x) [d](deploy)",
      `[x\ny](${blob}/docs/log.md#tools)`,
      "```",
      "# nothing [x](nowhere.md)",
      "```",
    ].join("\n");
    assert.deepEqual(mistakes("PAGE.md", `# A heading\n# A heading\n${good}\n`), []);
  });

  it("finds relative links that leave the package, and no others", () => {
    const page = `[a](log.md#x) [b](../src/README.md) [c](${blob}/src/README.md) [d](../deploy) [e](#here)`;
    const packed = ["docs/log.md", "deploy/compose.yaml", "docs/page.md"];
    assert.deepEqual(missingInPackage("docs/page.md", page, packed), [
      "docs/page.md:1: src/README.md is not in the package; link to the repository instead",
    ]);
  });
});
