// Summary of a soak as tables.

import Table from "cli-table3";
import { mib } from "./server-host.ts";
import type { SoakResult } from "./soak.ts";

const COLUMNS = 3;

export function report({ operations, events, jobsChecked, jobsPut, longest }: SoakResult): string {
  const counts = plainTable();
  const cells = operations.all.map(([kind, count]) => [
    kind,
    { content: `${count}`, hAlign: "right" as const },
  ]);
  for (let at = 0; at < cells.length; at += COLUMNS) counts.push(cells.slice(at, at + COLUMNS).flat());
  const facts = plainTable();
  const { worst } = operations;
  facts.push(
    ["events", events.all.map(([kind, count]) => `${count} x ${kind}`).join("\n")],
    ["ids given", `${jobsPut}`],
    ["jobs compared with the ledger", `${jobsChecked}`],
    ["replies outside of events", `99 of 100 within ${operations.percentileMs(99).toFixed(1)} ms`],
    ["the worst", `${worst.ms.toFixed(1)} ms (${worst.kind})`],
  );
  if (longest !== undefined) {
    const { first, last, liveBytesFirst, liveBytesLast, seconds } = longest;
    facts.push(
      [`RSS of a server over ${seconds} s`, `${mib(first.rssBytes)} to ${mib(last.rssBytes)}`],
      ["its descriptors", `${first.descriptors} to ${last.descriptors}`],
      ["its live jobs", `${mib(liveBytesFirst)} to ${mib(liveBytesLast)}`],
    );
  }
  return `${counts}\n${facts}`;
}

/** No colours and no lines between rows. */
function plainTable(): Table.Table {
  return new Table({
    style: { head: [], border: [] },
    chars: { mid: "", "left-mid": "", "mid-mid": "", "right-mid": "" },
  });
}
