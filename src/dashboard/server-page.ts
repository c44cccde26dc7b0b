// The page of the server: the process, its threads, memory and options; draining and reloading it.

import { html, nothing } from "lit-html";
import type { Desk } from "./desk.ts";
import { bytes, duration } from "./format.ts";
import { facts, meter, type Part } from "./parts.ts";
import type { ServerView, ThreadRow } from "./view-types.ts";

export function showServer({ server: its, threads, frame }: ServerView, desk: Desk): Part {
  const memory = its["memory"] as Record<string, number>;
  const options = its["options"] as Record<string, unknown>;
  return html`
    <div class="title">
      <h1>Server</h1>
      ${desk.may("admin") ? actions(its["draining"] === true, desk) : nothing}
    </div>
    <section class="card" aria-label="The process">
      ${facts([
        ["version", `${its["version"]} on Node ${its["node"]}`],
        ["host", `${its["hostname"]}, pid ${its["pid"]}`],
        ["up for", html`<span title=${`${its["startedAt"]}`}>${duration(frame.uptime)}</span>`],
        ["listens on", (its["listeners"] as string[]).join(", ")],
        ["transport", `${its["transport"]}`],
        ["shards, acceptors", `${its["shards"]}, ${its["acceptors"]}`],
      ])}
    </section>
    <div class="two">
      <section class="card" aria-labelledby="threads">
        <h2 id="threads">Threads <small>share of a core</small></h2>
        <table>
          <caption class="hidden">CPU of each thread</caption>
          <thead><tr><th scope="col">thread</th><th scope="col">CPU</th><th scope="col" class="left"><span class="hidden">as a bar</span></th></tr></thead>
          <tbody>
            ${inGroups(threads).map(
              ({ name, cpu }) => html`<tr>
                <th scope="row">${name}</th><td>${Math.round(cpu * 100)} %</td><td class="left half">${meter(cpu)}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </section>
      <section class="card" aria-labelledby="memory">
        <h2 id="memory">Memory</h2>
        ${facts([
          ["of the process", bytes(memory["resident"] ?? 0)],
          ["jobs", bytes(memory["jobs"] ?? 0)],
          ["bodies", bytes(memory["bodies"] ?? 0)],
          ["HTTP side", bytes(memory["httpHeap"] ?? 0)],
          [
            "of max-memory",
            memory["limit"] ? `${bytes(memory["used"] ?? 0)} of ${bytes(memory["limit"])}` : "no limit",
          ],
        ])}
        ${memory["limit"] ? meter((memory["used"] ?? 0) / memory["limit"]) : nothing}
        <h2>Options</h2>
        ${facts(Object.entries(options).map(([key, value]): [string, string] => [words(key), optionValue(key, value)]))}
      </section>
    </div>
  `;
}

function actions(isDraining: boolean, { act }: Desk): Part {
  return html`<div class="actions">
    <button class="button" type="button" @click=${() => act((each) => each.reload())}>Reload…</button>
    <button class="button" type="button" @click=${() => act((each) => each.drain(!isDraining))}>
      ${isDraining ? "Take new jobs again…" : "Drain…"}
    </button>
  </div>`;
}

/** Node's own threads are one row. */
const OF_NODE = /^(?:DelayedTaskSche|node-V8Worker|SignalInspector|libuv-worker)/;

function inGroups(threads: readonly ThreadRow[]): ThreadRow[] {
  const ours = threads.filter(({ name }) => !OF_NODE.test(name));
  const others = threads.filter(({ name }) => OF_NODE.test(name));
  const cpu = others.reduce((sum, each) => sum + each.cpu, 0);
  return [
    ...ours.map((each) => (each.name === "node-MainThread" ? { ...each, name: "main" } : each)),
    ...(others.length === 0 ? [] : [{ name: "Node's own", cpu }]),
  ];
}

/** timeLeft → time left. */
const words = (key: string): string => key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

function optionValue(key: string, value: unknown): string {
  if (value === null) return "none";
  return key.endsWith("Bytes") ? bytes(Number(value)) : `${value}`;
}
