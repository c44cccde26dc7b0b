// Outcome of a case as text: each result with its count, its verdict and the reason why it is
// allowed.

import { type CaseReport, grouped } from "./run-case.ts";

const FORBIDDEN = "FORBIDDEN";

const count = (number: number): string => grouped(number).padStart(12);

export function outcomeTable({ played, counts, size, forbidden, broken, missing }: CaseReport): string {
  const rows = played.outcomes.map(
    ({ result, verdict, why }) =>
      `  ${verdict.padEnd(11)} ${count(counts.get(result) ?? 0)}  ${result}: ${why}`,
  );
  const known = new Set(played.outcomes.map(({ result }) => result));
  for (const [result, times] of counts)
    if (!known.has(result)) rows.push(`  ${FORBIDDEN.padEnd(11)} ${count(times)}  ${result}`);
  const head = `${played.name}: ${played.about}`;
  const faults = [
    ...[...forbidden, ...broken].map((failure) => `  FAILED ${failure}`),
    ...missing.map((result) => `  FAILED "${result}" never happened: the run shows too little`),
  ];
  return [head, ...rows, `  ${size}`, ...faults].join("\n");
}
