// Tubes page: a list filtered, sorted and paged by the server, with actions for the selected tubes.

import { html, nothing } from "lit-html";
import {
  ALL_TUBES,
  ago,
  COLUMNS,
  type Column,
  empty,
  firstJob,
  inHeldOrder,
  type Part,
  tubeTable,
} from "../parts/elements.ts";
import { bytes, duration, exact, rate, time, tubes } from "../parts/format.ts";
import { columnChoice, shownColumns } from "../parts/lists.ts";
import type { PageContext } from "../parts/page-context.ts";
import type { TubeRow, TubesView, TubeTimes } from "../parts/view-types.ts";

const PAGE_ROWS = 50;

const number = (key: string, name: string, of: (tube: TubeRow) => number, write = exact): Column => ({
  key,
  name,
  isUsual: false,
  label: name,
  hides: "optional",
  cell: (tube) => write(of(tube)),
  isZero: (tube) => of(tube) === 0,
});

const timeColumn = (key: string, name: string, of: (times: TubeTimes) => number | null): Column => ({
  key,
  name,
  isUsual: false,
  label: name,
  hides: "optional",
  cell: ({ times }) =>
    times === null
      ? html`<span title="not measured: the server measures at most 100 tubes">–</span>`
      : html`<span title="in the last ${duration(times.seconds)}">${time(of(times))}</span>`,
  isZero: ({ times }) => times === null || of(times) === null,
});

const ALL_COLUMNS: readonly Column[] = [
  ...COLUMNS,
  {
    ...number("disconnects", "returned by lost connections", ({ totals }) => totals.disconnects),
    ...{ isUsual: true, label: html`<span title="jobs returned by lost connections">lost</span>` },
  },
  number("urgent", "urgent", ({ jobs }) => jobs.urgent),
  {
    key: "oldestBuried",
    name: "oldest buried",
    isUsual: false,
    label: "oldest buried",
    hides: "optional",
    cell: ({ oldestBuried }) => ago(oldestBuried),
    isZero: ({ oldestBuried }) => oldestBuried === null,
  },
  number("bodyBytes", "bodies", ({ bodyBytes }) => bodyBytes, bytes),
  number("users", "using", ({ users }) => users),
  number("waiters", "waiting", ({ waiters }) => waiters),
  number("timeoutsRate", "timeouts /s", ({ rates }) => rates.timeouts, rate),
  number("disconnectsRate", "disconnects /s", ({ rates }) => rates.disconnects, rate),
  timeColumn("waitP50", "wait p50", ({ wait }) => wait.p50),
  timeColumn("waitP99", "wait p99", ({ wait }) => wait.p99),
  timeColumn("holdP50", "hold p50", ({ hold }) => hold.p50),
  timeColumn("holdP99", "hold p99", ({ hold }) => hold.p99),
  number("puts", "total puts", ({ totals }) => totals.puts),
  number("timeouts", "total timeouts", ({ totals }) => totals.timeouts),
];

export function showTubes({ health, tubes: view }: TubesView, context: PageContext): Part {
  const { query } = context.place;
  const sort = query.get("sort") ?? "oldest";
  const order = query.get("order") ?? (sort === "name" ? "asc" : "desc");
  const onSort = (key: string): void =>
    context.go({ sort: key, order: key === sort ? (order === "asc" ? "desc" : "asc") : "", from: "" });
  const match = query.get("match") ?? "";
  const { rows, heldSeconds } = inHeldOrder("tubes", context.viewFrom, view.items);
  return html`
    <div class="title"><h1>Tubes</h1></div>
    <section class="card">
      <div class="bar">
        <label class="grow">
          <span class="hidden">Filter by name</span>
          <input
            type="search"
            id="filter"
            placeholder="filter, as mail-*"
            .value=${match}
            @input=${({ target }: Event) => context.goSoon(() => ({ match: (target as HTMLInputElement).value.trim(), from: "" }))}
          >
        </label>
        <span class="quiet">${tubes(view.total)}${match === "" ? nothing : `, ${exact(view.matched)} match`}</span>
        ${sortChoice(sort, order, context)}
        ${columnChoice("tubes", ALL_COLUMNS, context.redraw)}
        ${heldSeconds === 0 ? nothing : html`<span class="quiet">order is ${heldSeconds} s old</span>`}
      </div>
      ${context.selected.size === 0 ? nothing : chosenTubes(context)}
      ${
        view.items.length === 0
          ? empty(match === "" ? "There are no tubes." : `No tube name matches ${match}.`)
          : tubeTable(
              rows,
              "All tubes",
              shownColumns("tubes", ALL_COLUMNS),
              { sort, order, onSort },
              context.may("manage") ? context : undefined,
            )
      }
      ${view.total === 1 && view.items[0]?.name === "default" && view.items[0].totals.puts === 0 ? empty("A tube appears with its first job.", firstJob(health)) : nothing}
      ${view.matched > PAGE_ROWS ? pager(view, context) : nothing}
    </section>
  `;
}

/** Replaces the column heads when rows are cards. */
function sortChoice(sort: string, order: string, context: PageContext): Part {
  const option = (key: string, name: string): Part =>
    html`<option value=${key} ?selected=${key === sort}>${name}</option>`;
  const isRising = order === "asc";
  return html`<span class="bar narrow-only">
    <span class="quiet" aria-hidden="true">sort</span>
    <select aria-label="sort by" @change=${(event: Event) => context.go({ sort: (event.target as HTMLSelectElement).value, order: "", from: "" })}>
      ${option("name", "tube")} ${ALL_COLUMNS.map(({ key, name }) => option(key, name))}
    </select>
    <button class="button" type="button" aria-label=${isRising ? "Ascending; reverse the order" : "Descending; reverse the order"}
      @click=${() => context.go({ sort, order: isRising ? "desc" : "asc", from: "" })}>${isRising ? "↑" : "↓"}</button>
  </span>`;
}

function chosenTubes(context: PageContext): Part {
  const names = [...context.selected];
  const button = (label: string, tone: string, open: Parameters<PageContext["act"]>[0]): Part =>
    html`<button class="button ${tone}" type="button" @click=${() => context.act(open)}>${label}</button>`;
  return html`<div class="bar chosen" role="group" aria-label="Actions on the selected tubes">
    <span aria-live="polite">${exact(names.length)} selected:</span>
    ${button("Pause…", "", (actions) => actions.pauseTubes(names, context.may(ALL_TUBES)))}
    ${button("Kick…", "", (actions) => actions.kickTubes(names))}
    ${button("Move…", "", (actions) => actions.moveTubes(names))}
    ${button("Clear…", "bad", (actions) => actions.clearTubes(names))}
    <button class="button" type="button" @click=${() => context.select(names, false)}>None</button>
  </div>`;
}

function pager({ from, matched, items }: TubesView["tubes"], context: PageContext): Part {
  const to = (at: number): void => context.go({ from: at <= 0 ? "" : `${at}` });
  return html`<div class="bar">
    <span class="quiet">${exact(from + 1)}–${exact(from + items.length)} of ${exact(matched)}</span>
    <button class="button" type="button" ?disabled=${from === 0} @click=${() => to(from - PAGE_ROWS)}>Previous</button>
    <button class="button" type="button" ?disabled=${from + items.length >= matched} @click=${() => to(from + PAGE_ROWS)}>
      Next
    </button>
  </div>`;
}
