// Checks the anatomies of a put in src/README.md and src/http/README.md: each row names the
// function below its mark in the code.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Of each page: what its marks are called, and how many there are. */
const PAGES = [
  { page: "src/README.md", what: "put", count: 18 },
  { page: "src/http/README.md", what: "http put", count: 6 },
];
const ROW = /^\| (\d+) \| `(?:(\w+)\.)?(#?\w+)` \|/gm;

interface Step {
  readonly owner: string | undefined;
  readonly name: string;
}

const stepsIn = (page: string): Map<number, Step> =>
  new Map([...page.matchAll(ROW)].map(([, number, owner, name]) => [Number(number), { owner, name: name! }]));

/** Returns what is wrong with the marks of one file, given the rows of the page. */
function mistakes(
  file: string,
  text: string,
  steps: ReadonlyMap<number, Step>,
  seen: number[],
  { what, count } = PAGES[0]!,
): string[] {
  return [...text.matchAll(new RegExp(`// ${what} (\\d+)/${count}\n`, "g"))].flatMap(
    ({ 0: mark, 1: digits, index }) => {
      const number = Number(digits);
      seen.push(number);
      const step = steps.get(number);
      if (step === undefined) return [`${file}: ${what} ${number}/${count} is in no row`];
      const declaration = text.slice(index + mark.length).split("\n", 1)[0]!;
      const isHere = new RegExp(`(?:^|\\s)(?:function )?${step.name}\\s*[(<]`).test(declaration);
      const ownerIsHere = step.owner === undefined || new RegExp(`class ${step.owner}\\b`).test(text);
      return isHere && ownerIsHere
        ? []
        : [`${file}: ${what} ${number}/${count} isn't ${step.name}: ${declaration}`];
    },
  );
}

describe("the anatomy of a put", () => {
  for (const each of PAGES)
    it(`in ${each.page} names the ${each.count} functions that are marked in the code`, () => {
      const steps = stepsIn(readFileSync(join(ROOT, each.page), "utf8"));
      const seen: number[] = [];
      const wrong = globSync("src/**/*.ts", { cwd: ROOT }).flatMap((file) =>
        mistakes(file, readFileSync(join(ROOT, file), "utf8"), steps, seen, each),
      );
      assert.deepEqual(wrong, []);
      assert.deepEqual(
        seen.sort((a, b) => a - b),
        Array.from({ length: each.count }, (_, index) => index + 1),
      );
      assert.equal(steps.size, each.count);
    });

  it("notices a renamed function, another class, and a mark without a row", () => {
    const steps = stepsIn("| 1 | `Engine.put` | shard | queues the job |");
    const found = (text: string): number => mistakes("a.ts", text, steps, []).length;
    assert.equal(found("class Engine {\n  // put 1/18\n  put(\n"), 0);
    assert.equal(found("class Engine {\n  // put 1/18\n  putJob(\n"), 1);
    assert.equal(found("class Queue {\n  // put 1/18\n  put(\n"), 1);
    assert.equal(found("class Engine {\n  // put 2/18\n  put(\n"), 1);
  });
});
