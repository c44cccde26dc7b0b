// Builds the report from existing result lines: node bench/report-from.ts RESULTS.jsonl REPORT.html
import { writeFileSync } from "node:fs";
import { reportPage } from "./report/report-page.ts";
import { lastRun } from "./result/last-run.ts";
import { runEntry } from "./run-entry.ts";

await runEntry(async () => {
  const [resultsFile, reportFile] = process.argv.slice(2);
  if (!resultsFile || !reportFile)
    throw new Error("Usage: node bench/report-from.ts RESULTS.jsonl REPORT.html");
  writeFileSync(reportFile, reportPage(lastRun(resultsFile)));
});
