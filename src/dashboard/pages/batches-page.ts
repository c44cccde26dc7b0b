// Batches page: the progress of each one, and a button to cancel it.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { fetchedList } from "../parts/fetched-list.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { ago, type Part, tableHead } from "../parts/parts.ts";
import type { BatchRow } from "../parts/view-types.ts";
import { batchLink, OUTCOMES, progress, stateOf } from "./batch-parts.ts";

export function showBatches(_view: unknown, context: PageContext): Part {
  return fetchedList<BatchRow>(context, {
    title: "Batches",
    filter: {
      text: "name",
      states: [
        ["unfinished", "not complete"],
        ["open", "open"],
        ["committed", "committed"],
        ...Object.entries(OUTCOMES).map(([outcome, [, , words]]) => [outcome, words] as const),
      ],
    },
    bar: orderChoice(context),
    table: (rows) => table(rows, context),
    none: {
      words:
        "No batches. Jobs of a batch belong together, and other jobs can wait until all of them have ended:",
      command:
        "runnerbean batch open import-7 && runnerbean put rows 'a body' --batch import-7 && runnerbean batch commit import-7",
      docs: "commands.md#open-batch-commit-batch-cancel-batch-inspect-batch-list-batches-jobs-that-belong-together",
    },
  });
}

const isOldestFirst = ({ place }: PageContext): boolean => place.query.get("order") === "asc";

const turnRound = (context: PageContext): void =>
  context.go({ order: isOldestFirst(context) ? "" : "asc", cursor: "" });

/** Replaces the column head where it is hidden. */
const orderChoice = (context: PageContext): Part => {
  const [is, turned] = isOldestFirst(context) ? ["oldest", "newest"] : ["newest", "oldest"];
  return html`<div class="bar where-optional-hides">
    <span class="quiet">The ${is} are first.</span>
    <button class="button" type="button" @click=${() => turnRound(context)}>Show the ${turned} first</button>
  </div>`;
};

function table(rows: readonly BatchRow[], context: PageContext): Part {
  const mayManage = context.may("manage");
  const oldest = isOldestFirst(context);
  const sorting = { sort: "opened", order: oldest ? "asc" : "desc", onSort: () => turnRound(context) };
  return html`<div class="scroll names" tabindex="0" role="region" aria-label="List of batches">
    <table class="cards">
      <caption class="hidden">Batches, the ${oldest ? "oldest" : "newest"} first</caption>
      <thead>
        <tr>
          <th scope="col">name</th><th scope="col" class="left">state</th><th scope="col" class="spare">members</th>
          <th scope="col" class="left">progress</th><th scope="col" title="Jobs that wait for the batch">waiting</th>
          ${tableHead("opened", "opened", "optional", sorting)}
          ${mayManage ? html`<th scope="col"><span class="hidden">Cancel it</span></th>` : nothing}
        </tr>
      </thead>
      <tbody>${repeat(
        rows,
        ({ number }) => number,
        (each) => row(each, mayManage, context),
      )}</tbody>
    </table>
  </div>`;
}

function row(batch: BatchRow, mayManage: boolean, context: PageContext): Part {
  const { name, members, state, waiting, age } = batch;
  const [tone, sign, words] = stateOf(batch);
  const isUnderWay = state === "open" || state === "committed";
  return html`<tr>
    <th scope="row" title=${name}><a class="cut" href=${batchLink(name)}>${name}</a></th>
    <td class="left"><span class=${tone}><span aria-hidden="true">${sign}</span> ${words}</span></td>
    <td class="spare" data-label="members">${exact(members)}</td>
    <td class="left wide rest-line">${progress(batch)}</td>
    <td data-label="waiting" class=${waiting === 0 ? "zero" : ""}>${exact(waiting)}</td>
    <td class="optional">${ago(age)} ago</td>
    ${
      mayManage
        ? html`<td class="corner">${
            isUnderWay
              ? html`<button class="button bad" type="button" aria-label="Cancel… the batch ${name}"
                  @click=${() => context.act((actions) => actions.cancelBatch(name))}>Cancel…</button>`
              : nothing
          }</td>`
        : nothing
    }
  </tr>`;
}
