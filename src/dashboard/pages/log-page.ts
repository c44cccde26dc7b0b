// Log page: disk usage of the log, and how long replies wait for the disk.

import { html } from "lit-html";
import { exact, milliseconds } from "../parts/format.ts";
import type { Chart, PageContext } from "../parts/page-context.ts";
import { chartPlace, empty, facts, logFacts, meter, noLog, type Part } from "../parts/parts.ts";
import type { Buckets, LogView } from "../parts/view-types.ts";

export function showLog({ log }: { readonly log: LogView | null }, context: PageContext): Part {
  return html`
    <div class="title"><h1>Log</h1></div>
    ${log === null ? html`<section class="card">${noLog}</section>` : figures(log, context)}
  `;
}

function figures(log: LogView, context: PageContext): Part {
  return html`<section class="card" aria-label="Files">${logFacts(log)}</section>
    <section class="card" aria-labelledby="syncs-title">
      <h2 id="syncs-title">Syncs over time <small>how long the disk took to make changes durable</small></h2>
      ${chartPlace("syncs-chart")} ${context.charts([SYNCS])}
    </section>
    <div class="two">
      ${distribution("Syncs", "how long each took since the start", log.syncSeconds, log.waitSeconds)}
      ${distribution("Waits of replies", "how long changes waited for a sync", log.waitSeconds, log.syncSeconds)}
    </div>
    <section class="card" aria-label="Records">
      ${facts([
        ["records written", exact(log.recordsWritten)],
        ["oldest file", exact(log.oldestFile)],
        ["current file", exact(log.currentFile)],
        [
          "disk to live bytes",
          log.amplification === null ? "–" : `${exact(+log.amplification.toPrecision(2))} : 1`,
        ],
      ])}
    </section>`;
}

const SYNCS: Chart = {
  id: "syncs-chart",
  title: "Syncs over time",
  url: "v1/binlog/syncs",
  span: "The last hour",
  spanSeconds: 3600,
  lines: [
    { series: "p99", label: "99 % within", colour: "delayed", isRate: false },
    { series: "p50", label: "half within", colour: "ready", isRate: false, dash: [8, 4] },
  ],
  isLog: false,
  write: milliseconds,
  inWords: ([most, half]) =>
    half === undefined
      ? "There were no syncs."
      : `In the last ten seconds with syncs, half of them took up to ${half}, and 99 % up to ${most}.`,
};

/** Shows a histogram. Two side by side have the same rows: all that are filled in at least one. */
function distribution(title: string, caption: string, buckets: Buckets, beside: Buckets): Part {
  const all = buckets.reduce((sum, { count }) => sum + count, 0);
  const counts = buckets.map(({ count }, index) => count + beside[index]!.count);
  const first = Math.max(
    0,
    counts.findIndex((count) => count > 0),
  );
  const last = counts.findLastIndex((count) => count > 0);
  return html`<section class="card">
    <h2>${title} <small>${caption}</small></h2>
    ${
      all === 0
        ? empty("None so far.")
        : html`<table>
            <caption class="hidden">${title}: ${caption}</caption>
            <thead><tr><th scope="col">up to</th><th scope="col">times</th><th scope="col" class="left">share</th></tr></thead>
            <tbody>
              ${buckets.slice(first, last + 1).map(
                ({ le, count }) => html`<tr>
                  <th scope="row">${le === null ? "more" : milliseconds(le)}</th>
                  <td class=${count === 0 ? "zero" : ""}>${exact(count)}</td>
                  <td class="left half">${meter(count / all)}<span class="hidden">${Math.round((count / all) * 100)} %</span></td>
                </tr>`,
              )}
            </tbody>
          </table>`
    }
  </section>`;
}
