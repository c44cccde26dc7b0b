// Connections page: the clients, what each one waits for and holds, and a button to close it.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { ago, empty, nameOf, type Part, tubeAnchor } from "../parts/elements.ts";
import { bytes, duration, exact } from "../parts/format.ts";
import { heldList } from "../parts/lists.ts";
import type { PageContext } from "../parts/page-context.ts";
import type { ConnectionRow, Counted } from "../parts/view-types.ts";

const STATES = ["open", "waiting", "holding", "closed"];
const REASONS: Readonly<Record<string, string>> = {
  client: "its client closed it",
  quit: "its client quit",
  idle: "it was idle for too long",
  admin: "a user closed it",
  error: "it broke: the client or the network died",
  stop: "the server stopped",
  auth: "its token was not accepted",
};
const SHOWN_TUBES = 3;
const SHOWN_JOBS = 3;

export function showConnections(
  { connections: page }: { readonly connections: Counted<ConnectionRow> },
  context: PageContext,
): Part {
  const { query } = context.place;
  const { list: shown, heldSeconds } = heldList(context.viewFrom, page);
  const state = query.get("state") ?? "open";
  const viewState = new URLSearchParams(context.viewFrom.split("?")[1]).get("state");
  return html`
    <div class="title"><h1>Connections</h1></div>
    <section class="card" aria-label="Connections">
      <div class="bar"><div class="bar" role="group" aria-label="Activity">
        ${STATES.map(
          (each) => html`<button
            type="button"
            class="button"
            aria-pressed=${each === state}
            @click=${() => context.go({ state: each === "open" ? "" : each })}
          >
            ${each}
          </button>`,
        )}</div>
        <label class="grow">
          <span class="hidden">Tube that they use or watch</span>
          <input
            type="search"
            placeholder="tube that they use or watch"
            .value=${query.get("tube") ?? ""}
            @input=${({ target }: Event) => context.goSoon(() => ({ tube: (target as HTMLInputElement).value.trim() }))}
          >
        </label>
        <span class="quiet">${exact(page.total)} ${state === "closed" ? "closed lately" : "open"}${page.matched === page.total ? nothing : `, ${exact(page.matched)} of them match`}</span>
        ${heldSeconds === 0 ? nothing : html`<span class="quiet">the list is ${heldSeconds} s old</span>`}
      </div>
      ${viewState === "closed" ? closedList(shown) : list(shown, context)}
    </section>
  `;
}

function list({ items, matched, total }: Counted<ConnectionRow>, context: PageContext): Part {
  if (items.length === 0)
    return empty(
      `${total === 0 ? "No client is connected." : "No such connection."} Clients of the beanstalkd protocol are listed here; requests over HTTP hold leases instead.`,
    );
  const mayClose = context.may("admin");
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of connections">
      <table class="cards">
        <caption class="hidden">Open connections</caption>
        <thead>
          <tr>
            <th scope="col">from</th><th scope="col">age</th><th scope="col" class="optional">idle</th><th scope="col" class="left">does</th>
            <th scope="col" class="left">uses</th><th scope="col" class="left">watches</th>
            <th scope="col" class="left">holds</th><th scope="col" class="optional">unread, unsent</th>
            ${mayClose ? html`<th scope="col"><span class="hidden">Close it</span></th>` : nothing}
          </tr>
        </thead>
        <tbody>${repeat(
          items,
          ({ id }) => id,
          (each) => row(each, mayClose, context),
        )}</tbody>
      </table>
    </div>
    ${matched > items.length ? html`<p class="quiet">The oldest ${exact(items.length)} are shown.</p>` : nothing}`;
}

function closedList({ items }: Counted<ConnectionRow>): Part {
  if (items.length === 0)
    return empty(
      "None has closed since the server started, or none of this tube. The server keeps the last 1,000.",
    );
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of connections">
    <table class="cards">
      <caption class="hidden">Closed connections, newest first</caption>
      <thead>
        <tr>
          <th scope="col">from</th><th scope="col">ended</th><th scope="col" class="left">why</th>
          <th scope="col" class="optional">lasted</th><th scope="col" class="left">used</th><th scope="col" class="left">watched</th>
        </tr>
      </thead>
      <tbody>${repeat(
        items,
        ({ id }) => id,
        ({ id, name, address, age, closedFor, reason, uses, watches, watchCount }) => html`<tr>
          <th scope="row" class="pieces" title="connection ${id}">${client(name, address ?? "–")}</th>
          <td data-label="ended">${ago(closedFor)} ago</td>
          <td class="left rest-line">${REASONS[reason ?? ""] ?? reason}</td>
          <td class="optional">${duration(age)}</td>
          <td class="left rest-line" data-label="used">${nameOf(uses)}</td>
          <td class="left rest-line pieces" data-label="watched">${inList(watches.map(nameOf))}${watchCount > watches.length ? html` <span class="quiet">and ${exact(watchCount - watches.length)} more</span>` : nothing}</td>
        </tr>`,
      )}</tbody>
    </table>
  </div>`;
}

function row(each: ConnectionRow, mayClose: boolean, context: PageContext): Part {
  const { id, name, address, listener, age, idle, uses, watches, watchCount, held, bytesIn, bytesOut } = each;
  const from = address ?? "a unix socket";
  return html`<tr>
    <th scope="row" class="pieces" title="connection ${id}${listener === null ? "" : `, accepted at ${listener}`}">${client(name, from)}</th>
    <td data-label="age">${ago(age)}</td>
    <td class="optional">${duration(idle)}</td>
    <td class="left">${whatItDoes(each)}</td>
    <td class="left rest-line" data-label="uses">${tubeAnchor(uses)}</td>
    <td class="left rest-line pieces" data-label="watches">
      ${inList(watches.slice(0, SHOWN_TUBES).map(tubeAnchor))}
      ${watchCount > SHOWN_TUBES ? html`<span class="quiet">and ${exact(watchCount - SHOWN_TUBES)} more</span>` : nothing}
    </td>
    <td class="left rest-line pieces ${held === 0 ? "none" : ""}" data-label="holds">${heldJobs(each)}</td>
    <td class="optional">${bytes(bytesIn)}, ${bytes(bytesOut)}</td>
    ${
      mayClose
        ? html`<td class="corner"><button class="button" type="button" aria-label="Close the connection from ${from}" @click=${() =>
            context.act((actions) => actions.closeConnection(id, name, from, held))}>Close…</button></td>`
        : nothing
    }
  </tr>`;
}

/** The comma stays with the name before it. */
const inList = (names: readonly Part[]): Part[] =>
  names.map((name, at) => (at === names.length - 1 ? name : html`<span class="one-line">${name},</span> `));

/** Shows the client's name, if it has one, and below it the address. */
const client = (name: string | null, from: string): Part =>
  name === null ? html`${from}` : html`${nameOf(name)} <span class="quiet one-line">${from}</span>`;

function whatItDoes({ waiting, producer, worker }: ConnectionRow): string {
  if (waiting) return "waits for a job";
  if (producer && worker) return "puts and works";
  return producer ? "puts" : worker ? "works" : "–";
}

function heldJobs({ held, holds }: ConnectionRow): Part {
  if (held === 0) return html`<span class="quiet">–</span>`;
  return html`${holds
    .slice(0, SHOWN_JOBS)
    .map(
      ({ id, timeLeft }, index) =>
        html`${index === 0 ? "" : ", "}<a href="#/jobs/${id}">${id}</a> <span class="quiet one-line">${duration(timeLeft)} left</span>`,
    )}${held > SHOWN_JOBS ? html` <span class="quiet">and ${exact(held - SHOWN_JOBS)} more</span>` : nothing}`;
}
