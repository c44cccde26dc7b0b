// What a campaign on a group says: a line for each round, and a table in the end.

import type { RoundReport } from "./group-rounds.ts";

export function lineOf(report: RoundReport): string {
  const { nemesis, what, servedMs, puts, deletes, lost, back, verdicts, operations, unknown, lone } = report;
  const facts = [
    `${nemesis}: ${what}`,
    `served ${Math.round(servedMs)} ms later`,
    `${puts} puts and ${deletes} deletes acknowledged, ${lost} lost, ${back} back`,
    `${operations} operations (${unknown} unknown) in histories: ${verdictsOf(verdicts)}${report.sawUndone > 0 ? ` (${report.sawUndone} saw what was undone)` : ""}`,
    `JetStream alone: ${lone.acknowledged} acknowledged, ${lone.lost} lost, ${lone.hidden} hidden, ${lone.lacking} lacking on a server`,
    ...(report.exits.length > 0 ? [`servers ended with ${report.exits.join(" ")}`] : []),
    `${Math.round(report.seconds)} s`,
  ];
  return facts.join("; ");
}

const verdictsOf = (verdicts: RoundReport["verdicts"]): string =>
  Object.entries(verdicts)
    .filter(([, count]) => count > 0)
    .map(([verdict, count]) => `${count} ${verdict}`)
    .join(", ");

const COLUMNS = [
  "nemesis",
  "rounds",
  "puts",
  "deletes",
  "lost",
  "back",
  "histories accepted",
  "of these saw what was undone",
  "refused",
  "undecided",
  "operations",
  "JetStream alone: acknowledged",
  "lost",
  "hidden",
  "lacking on a server",
];

/** One row for each nemesis, and one for all. */
export function tableOf(reports: readonly RoundReport[]): string {
  const names = [...new Set(reports.map(({ nemesis }) => nemesis))];
  const rows = [
    ...names.map((name) =>
      rowOf(
        name,
        reports.filter(({ nemesis }) => nemesis === name),
      ),
    ),
    rowOf("all", reports),
  ];
  return [COLUMNS, COLUMNS.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function rowOf(name: string, reports: readonly RoundReport[]): readonly string[] {
  const sum = (count: (report: RoundReport) => number): number =>
    reports.reduce((all, report) => all + count(report), 0);
  return [
    name,
    `${reports.length}`,
    ...[
      sum(({ puts }) => puts),
      sum(({ deletes }) => deletes),
      sum(({ lost }) => lost),
      sum(({ back }) => back),
      sum(({ verdicts }) => verdicts.accepted),
      sum(({ sawUndone }) => sawUndone),
      sum(({ verdicts }) => verdicts.refused),
      sum(({ verdicts }) => verdicts.undecided),
      sum(({ operations }) => operations),
      sum(({ lone }) => lone.acknowledged),
      sum(({ lone }) => lone.lost),
      sum(({ lone }) => lone.hidden),
      sum(({ lone }) => lone.lacking),
    ].map((count) => count.toLocaleString("en")),
  ];
}
