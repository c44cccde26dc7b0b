// Tests of the width of lines: comments and Markdown are wrapped at 100 columns.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COLUMNS = 100;
const ROOMS = "{src,test,bench,native-bench,docs}/**/";
/** A word that can't be wrapped, such as a URL. */
const LONG_WORD = /\S{60}/;
/** A comment, alone on its line or behind code whose quotes are closed. */
const COMMENT = /^\s*(?:\/\/|\/\*|\* |# )|^[^"'`]*(?:(["'`])[^"'`]*\1[^"'`]*)*\s\/\/ /;

const isWide = (line: string): boolean =>
  line.length > COLUMNS && !LONG_WORD.test(line) && !line.includes("biome-ignore");

const wideLines = (path: string, isExempt: (line: string) => boolean): string[] =>
  readFileSync(join(ROOT, path), "utf8")
    .split("\n")
    .flatMap((line, at) =>
      !isExempt(line) && isWide(line) ? [`${path}:${at + 1}: ${line.length} columns`] : [],
    );

/** Lines of Markdown that stay as they are: tables, code, link targets, and comments. */
function exemptInMarkdown(): (line: string) => boolean {
  let isFenced = false;
  return (line) => {
    if (/^\s*(?:```|~~~)/.test(line)) isFenced = !isFenced;
    return isFenced || /^\s*\||^ {4}|^\[[^\]]+\]:|^<!--/.test(line);
  };
}

test("comments are at most 100 columns wide", () => {
  const files = globSync([`${ROOMS}*.{ts,c,h,sh}`, "bin/{node,runnerbean}"], { cwd: ROOT });
  assert.ok(files.length > 1000, "the sources are not where they were");
  assert.deepEqual(
    files.flatMap((path) => wideLines(path, (line) => !COMMENT.test(line))),
    [],
  );
});

test("Markdown is at most 100 columns wide, apart from tables and code", () => {
  const files = globSync(["*.md", ".github/**/*.md", `${ROOMS}*.md`], { cwd: ROOT });
  assert.ok(files.includes("README.md") && files.length > 30, "the documents are not where they were");
  assert.deepEqual(
    files.flatMap((path) => wideLines(path, exemptInMarkdown())),
    [],
  );
});
