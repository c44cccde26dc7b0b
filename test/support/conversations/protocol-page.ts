// Citable parts of src/protocol/README.md: sections, headings, and the rows of its table.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { anchorOf } from "../document-links.ts";

/** The section whose table has the rows. */
export const ROWS_SECTION = "14";
/** The number of a section, as a regular expression. */
export const NUMBER = String.raw`\d+(?:\.\d+)*`;

export interface Page {
  readonly sections: ReadonlySet<string>;
  readonly anchors: ReadonlySet<string>;
  readonly rows: ReadonlySet<string>;
}

export function protocolPage(): Page {
  const text = readFileSync(new URL("../../../src/protocol/README.md", import.meta.url), "utf8");
  const sections = new Set<string>();
  const anchors = new Set<string>();
  const rows = new Set<string>();
  let section = "";
  for (const line of text.split("\n")) {
    const heading = /^#+ (.*)$/.exec(line)?.[1];
    if (heading !== undefined) {
      section = new RegExp(`^(${NUMBER})\\.? `).exec(heading)?.[1] ?? "";
      if (section !== "") {
        assert.ok(!sections.has(section), `section ${section} is there once`);
        sections.add(section);
      }
      anchors.add(anchorOf(heading));
    }
    const row = section === ROWS_SECTION ? /^\| (\d+(?:, \d+)*) +\|/.exec(line)?.[1] : undefined;
    for (const number of row?.split(", ") ?? []) rows.add(number);
  }
  return { sections, anchors, rows };
}
