// Checks that all citations of src/protocol/README.md, by section, table row or heading, lead
// somewhere.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { NUMBER, type Page, protocolPage, ROWS_SECTION } from "../support/conversations/protocol-page.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PAGE = "src/protocol/README.md";
/** Its lines are examples of bad citations. */
const SELF = "test/tree/citations.test.ts";

/**
 * Between a word and what belongs to it: blanks, or the end of a line and the beginning of the
 * comment's next one.
 */
const GAP = String.raw`(?:[ ,]*\n[ \t]*(?:\*|\/\/|#)?[ ]*|,?[ ])`;
/** "protocol/README.md 3.1", "… 8.1, 8.2 and 13.2", "… 14 row 3", "… 14 rows 19 and 20". */
const CITATION = new RegExp(
  String.raw`protocol\/README\.md${GAP}(?:section )?(${NUMBER}(?:(?:, | and )${NUMBER})*)(?:${GAP}rows? (\d+(?:(?:, | and )\d+)*))?`,
  "g",
);
const LINK = /protocol\/README\.md#([^)\s`"]+)/g;
/** References of the page in parentheses: "(3.1)", "(14, row 5)". */
const OWN_CITATION = new RegExp(
  String.raw`\((?:section )?(${NUMBER})(?:,\s+rows? (\d+(?: and \d+)*))?\)`,
  "g",
);
/** Name of a document outside the project. */
const FOREIGN = /(?<![\w/])protocol\.md\b/g;

interface Found {
  readonly wrong: string[];
  citations: number;
}

function check(page: Page, path: string, text: string, found: Found): void {
  const at = (index: number): string => `${path}:${text.slice(0, index).split("\n").length}`;
  for (const pattern of path === PAGE ? [CITATION, OWN_CITATION] : [CITATION]) {
    for (const { index, 1: sections, 2: rows } of text.matchAll(pattern)) {
      found.citations++;
      for (const what of missing(page, sections!, rows)) found.wrong.push(`${at(index)}: ${what}`);
    }
  }
  for (const { index, 1: anchor } of text.matchAll(LINK))
    if (!page.anchors.has(anchor!)) found.wrong.push(`${at(index)}: there is no heading #${anchor}`);
  for (const { index } of text.matchAll(FOREIGN))
    found.wrong.push(`${at(index)}: protocol.md is not here; cite protocol/README.md`);
}

/** Returns what a citation names and the page lacks. */
function missing(page: Page, sections: string, rows: string | undefined): string[] {
  const cited = sections.split(/, | and /);
  const wrong = cited
    .filter((section) => !page.sections.has(section))
    .map((it) => `there is no section ${it}`);
  if (rows !== undefined && cited.at(-1) !== ROWS_SECTION) wrong.push(`section ${cited.at(-1)} has no rows`);
  for (const row of rows?.split(/, | and /) ?? [])
    if (!page.rows.has(row)) wrong.push(`there is no row ${row}`);
  return wrong;
}

const page = protocolPage();

describe("citations of the protocol", () => {
  it("name sections, rows and headings that exist", () => {
    const files = globSync(["*.md", "{docs,src,test,bench,native-bench}/**/*.{ts,md,txt,c,h}"], {
      cwd: ROOT,
    });
    const found: Found = { wrong: [], citations: 0 };
    for (const path of files)
      if (path !== SELF) check(page, path, readFileSync(join(ROOT, path), "utf8"), found);
    assert.deepEqual(found.wrong, []);
    assert.ok(found.citations > 100, `the citations are found: ${found.citations}`);
  });

  it("find all sections and rows of the page", () => {
    for (const section of ["1", "2.2", "3.1", "14"]) assert.ok(page.sections.has(section), section);
    assert.deepEqual(
      [...page.rows],
      Array.from({ length: 26 }, (_, index) => `${index + 1}`),
    );
  });
});

describe("the check of the citations (canary)", () => {
  const wrongIn = (text: string, path = "src/engine/x.ts"): string[] => {
    const found: Found = { wrong: [], citations: 0 };
    check(page, path, `\n${text}\n`, found);
    return found.wrong;
  };
  const bad: [name: string, line: string][] = [
    ["a section that does not exist", "// (protocol/README.md 99)"],
    ["a part that does not exist", "// (protocol/README.md 3.99)"],
    ["the second of two", "# protocol/README.md 4.1 and 4.99: x"],
    ["the last of three", "# protocol/README.md 8.1, 8.2 and 8.99: x"],
    ["one with the word", "// (protocol/README.md, section 99)"],
    ["one that ends a sentence", "# protocol/README.md 99."],
    ["one that goes over two lines", "/* as protocol/README.md\n * 99 says */"],
    ["a row that does not exist", "# protocol/README.md 14 row 99: x"],
    ["a row behind a comma", "# protocol/README.md 14, row 99: x"],
    ["the second of two rows", "# protocol/README.md 14 rows 19 and 99: x"],
    ["a row of a section without", "# protocol/README.md 3.1 row 1: x"],
    ["a heading that does not exist", "[x](src/protocol/README.md#14-copied)"],
    ["a document that is not here", "// (protocol.md 3.1)"],
  ];
  for (const [name, line] of bad) {
    it(`finds ${name}, with file and line`, () => {
      const wrong = wrongIn(line);
      assert.equal(wrong.length, 1, wrong.join("\n"));
      assert.match(wrong[0]!, /^src\/engine\/x\.ts:2: /);
    });
  }

  it("finds mistakes in the page's own citations", () => {
    assert.deepEqual(wrongIn("late (3.1), early (3.99) and odd (14, row 99)", PAGE), [
      `${PAGE}:2: there is no section 3.99`,
      `${PAGE}:2: there is no row 99`,
    ]);
  });

  it("accepts good citations and other numbers", () => {
    assert.deepEqual(
      wrongIn(
        [
          "// (protocol/README.md 3.1), (protocol/README.md 8.1, 8.2 and 13.2), protocol/README.md 14 rows 19 and 20.",
          "# protocol/README.md 7.4, testserv 17 and 51: waiting clients stay",
          "[list](../../src/protocol/README.md#14-not-copied), src/protocol/README.md, protocol/README.md says 99",
        ].join("\n"),
      ),
      [],
    );
  });
});
