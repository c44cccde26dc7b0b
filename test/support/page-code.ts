// Code on a page of docs/ that is a file's, between its lines `page: begin` and `page: end`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** [raw.py](address), then the rest of its paragraph, and then the code. */
const BLOCK = /(\[([\w-]+\.\w+)\]\(\S+\)[^`\n]*(?:\n[^`\n]+)*\n\n```\w+\n)[\s\S]*?(?=```)/g;

/** Returns the names of the files on the page, and the page as it should be. */
export function insertedCode(
  page: string,
  codeOf: (name: string) => string,
): { readonly names: string[]; readonly expected: string } {
  const names: string[] = [];
  const expected = page.replace(BLOCK, (_all, head: string, name: string) => {
    names.push(name);
    return head + codeOf(name);
  });
  return { names, expected };
}

/** Returns the parts of a file that a page shows. */
export function shownPart(folder: string, name: string): string {
  const file = readFileSync(join(folder, name), "utf8");
  const parts = [...file.matchAll(/^\S+ page: begin\n([\s\S]*?)^\S+ page: end$/gm)].map(([, part]) => part!);
  assert.ok(parts.length > 0, `${name} has no lines "page: begin" and "page: end"`);
  return parts.join("\n");
}
