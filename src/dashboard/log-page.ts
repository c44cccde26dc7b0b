// The page of the log: what it takes on the disk, and how long the disk keeps replies waiting.

import { html } from "lit-html";
import { exact } from "./format.ts";
import { empty, facts, logFacts, meter, milliseconds, noLog, type Part } from "./parts.ts";
import type { Bucket, LogPageView } from "./view-types.ts";

export function showLog(view: LogPageView): Part {
  return html`
  <div class="title"><h1>Log</h1></div>
  ${
    view.log === null
      ? html`<section class="card">${noLog}</section>`
      : html`<section class="card" aria-label="Files">${logFacts(view.log)}</section>
          <div class="two">
            ${distribution("Syncs", "How long the disk took to make changes durable", view.log.syncSeconds)}
            ${distribution("Waits of replies", "How long changes waited for the disk", view.log.waitSeconds)}
          </div>
          <section class="card" aria-label="Records">
            ${facts([
              ["records written", exact(view.log.recordsWritten)],
              ["oldest file", exact(view.log.oldestFile)],
              ["current file", exact(view.log.currentFile)],
              [
                "disk to live bytes",
                view.log.amplification === null ? "–" : `${exact(view.log.amplification)} : 1`,
              ],
            ])}
          </section>`
  }
  `;
}

function distribution(title: string, caption: string, buckets: readonly Bucket[]): Part {
  const all = buckets.reduce((sum, { count }) => sum + count, 0);
  const shown = buckets.filter(({ count }, index) => count > 0 || (buckets[index + 1]?.count ?? 0) > 0);
  return html`<section class="card">
    <h2>${title} <small>${caption}</small></h2>
    ${
      all === 0
        ? empty("None so far.")
        : html`<table>
            <caption class="hidden">${caption}</caption>
            <thead><tr><th scope="col">up to</th><th scope="col">times</th><th scope="col" class="left">share</th></tr></thead>
            <tbody>
              ${shown.map(
                ({ le, count }) => html`<tr>
                  <th scope="row">${le === null ? "more" : milliseconds(le)}</th>
                  <td>${exact(count)}</td>
                  <td class="left half">${meter(count / all)}<span class="hidden">${Math.round((count / all) * 100)} %</span></td>
                </tr>`,
              )}
            </tbody>
          </table>`
    }
  </section>`;
}
