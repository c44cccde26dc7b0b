// Server page: the process, its threads, memory and options, and the actions drain and reload.

import { html, nothing } from "lit-html";
import { bytes, duration, rate } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { facts, meter, type Part, threadTable } from "../parts/parts.ts";
import type { Load, Server } from "../parts/view-types.ts";

export function showServer(
  { server: its, threads: { load, rings } }: { readonly server: Server; readonly threads: Load },
  context: PageContext,
): Part {
  return html`
    <div class="title">
      <h1>Server</h1>
      ${context.may("admin") ? actions(its.draining, context) : nothing}
    </div>
    <section class="card" aria-label="The process">
      ${facts([
        ["version", `${its.version} on Node ${its.node.replace("v", "")}`],
        ["host", `${its.hostname}, pid ${its.pid}`],
        ["up for", html`<span title=${its.startedAt}>${duration(its.uptime)}</span>`],
        ["listens on", its.listeners.join(", ")],
        ["transport", its.transport],
        ["shards, acceptors", `${its.shards}, ${its.acceptors}`],
      ])}
    </section>
    <div class="two">
      <section class="card" aria-labelledby="threads">
        <h2 id="threads">Threads <small>share of a core</small></h2>
        ${threadTable(load)}
      </section>
      <section class="card" aria-labelledby="memory">
        <h2 id="memory">Memory</h2>
        ${memoryTable(its.memory)}
      </section>
      <section class="card" aria-labelledby="rings">
        <h2 id="rings">Rings <small>recent fill of the fullest one of each thread</small></h2>
        ${ringTable(rings)}
      </section>
      <section class="card" aria-labelledby="options">
        <h2 id="options">Options</h2>
        ${facts(Object.entries(its.options).map(([key, value]): [string, string] => [words(key), optionValue(key, value)]))}
      </section>
    </div>
  `;
}

/**
 * Shows memory by purpose as a share of the process, and at the end the used share of max-memory.
 */
function memoryTable({ resident, jobs, bodies, rings, httpHeap, used, limit }: Server["memory"]): Part {
  const row = (name: string, value: number, of: number): Part => html`<tr>
    <th scope="row">${name}</th><td>${bytes(value)}</td><td class="left half">${meter(of === 0 ? 0 : value / of)}</td>
  </tr>`;
  return html`<table>
    <caption class="hidden">Memory by purpose</caption>
    <thead><tr><th scope="col">for</th><th scope="col">bytes</th><th scope="col" class="left"><span class="hidden">as a share of the whole</span></th></tr></thead>
    <tbody>
      ${row("the process", resident, resident)} ${row("jobs", jobs, resident)} ${row("bodies", bodies, resident)}
      ${row("rings", rings, resident)} ${row("HTTP side", httpHeap, resident)}
      ${
        limit === null
          ? html`<tr><th scope="row">max-memory</th><td>no limit</td><td></td></tr>`
          : row(`max-memory, of ${bytes(limit)}`, used, limit)
      }
    </tbody>
  </table>`;
}

function ringTable(rings: Load["rings"]): Part {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Rings"><table>
    <caption class="hidden">Messages that threads take from their rings</caption>
    <thead>
      <tr>
        <th scope="col">thread</th><th scope="col" class="optional">turns /s</th><th scope="col">messages /s</th>
        <th scope="col">filled</th><th scope="col" class="left optional"><span class="hidden">as a bar</span></th><th scope="col">at most</th>
      </tr>
    </thead>
    <tbody>
      ${rings.map(
        ({ name, turns, messages, fill, fillMax }) => html`<tr>
          <th scope="row">${name}</th><td class="optional">${rate(turns)}</td><td>${rate(messages)}</td>
          <td>${percent(fill)}</td><td class="left quarter optional">${meter(fill)}</td><td>${percent(fillMax)}</td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

/** A small share must not look like 0. */
const percent = (share: number): string =>
  share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`;

function actions(isDraining: boolean, { act }: PageContext): Part {
  return html`<div class="actions">
    <button class="button" type="button" @click=${() => act((each) => each.reload())}>Reload…</button>
    <button class="button" type="button" @click=${() => act((each) => each.drain(!isDraining))}>
      ${isDraining ? "Accept new jobs again…" : "Drain…"}
    </button>
  </div>`;
}

/** Returns "time left" for timeLeft. */
const words = (key: string): string => key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

function optionValue(key: string, value: unknown): string {
  if (value === null) return "none";
  return key.endsWith("Bytes") ? bytes(Number(value)) : `${value}`;
}
