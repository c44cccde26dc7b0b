// Links of Markdown documents, and the headings that they may name.

import { dirname, join } from "node:path";

/** "[text](target)", also over two lines, or an image. */
export const LINK = /\[[^[\]]*\]\(([^)\s]+)\)/g;
/** The address under which the repository shows its files, and the prefix of links to them. */
const REPOSITORY = /^https:\/\/github\.com\/runnerbean\/runnerbean\/(?:blob|tree)\/main\//;

/**
 * Returns the path in the repository of a link in `from`, without its anchor; undefined for other
 * sites.
 */
export function localPath(from: string, target: string): string | undefined {
  const [file] = target.split("#");
  if (REPOSITORY.test(file!)) return file!.replace(REPOSITORY, "");
  if (/^[a-z]+:/.test(file!)) return undefined;
  return file === "" ? from : join(dirname(from), file!);
}

/** Returns a document's text with the contents of its code blocks blanked out, line by line. */
export const withoutCode = (text: string): string =>
  text.replace(/^```[\s\S]*?^```/gm, (block) => block.replace(/[^\n]/g, " "));

/** Returns the anchors that GitHub gives the headings of a document. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading] of withoutCode(text).matchAll(/^#+ (.*)$/gm)) {
    const anchor = anchorOf(heading!);
    let number = 0;
    while (anchors.has(number === 0 ? anchor : `${anchor}-${number}`)) number++;
    anchors.add(number === 0 ? anchor : `${anchor}-${number}`);
  }
  return anchors;
}

/** Returns the anchor that GitHub gives a heading, for links such as page.md#a-heading. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");
