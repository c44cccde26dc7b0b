// The page of all nights, a row for each, the newest first.

import type { Proof } from "./nightly.ts";

const HEAD = `# Nights

Each row is one run of \`npm run nightly\`: campaigns for a given time, each from seeds that no earlier
night used. "failed" names the campaigns that found something; proof.json has the commands.

| began (UTC) | commit | minutes | seeds | operations | failed |
|---|---|---|---|---|---|
`;

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

export function rowOf({ startedAt, commit, isChanged, minutes, campaigns }: Proof): string {
  const played = campaigns.filter(({ skipped }) => skipped === undefined);
  const seeds = played.reduce((sum, each) => sum + each.seeds, 0);
  const operations = played.map(({ name, unit, operations: count }) => `${name} ${count} ${unit}`);
  const skipped = campaigns.filter((each) => each.skipped !== undefined).map(({ name }) => name);
  const failed = played.filter(({ failures }) => failures.length > 0).map(({ name }) => name);
  const began = startedAt.slice(0, 16).replace("T", " ");
  const what = skipped.length === 0 ? operations : [...operations, `not played: ${skipped.join(", ")}`];
  const cells = [
    ...[began, `${commit.slice(0, 10)}${isChanged ? " and changes" : ""}`, `${minutes}`, `${seeds}`],
    ...[what.join("; "), failed.length === 0 ? "none" : failed.join(", ")],
  ];
  return `| ${cells.map(cell).join(" | ")} |\n`;
}

/** The page with one more row. */
export function withRow(page: string | undefined, proof: Proof): string {
  const rows = page?.startsWith(HEAD) === true ? page.slice(HEAD.length) : (page ?? "");
  return HEAD + rowOf(proof) + rows;
}
