// Server page: the process, its threads, memory and options, and the actions drain and reload.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import {
  chartPlace,
  empty,
  facts,
  logFacts,
  meter,
  noLog,
  type Part,
  threadTable,
  tile,
} from "../parts/elements.ts";
import { bytes, duration, exact, milliseconds, rate, short } from "../parts/format.ts";
import type { Chart, PageContext } from "../parts/page-context.ts";
import type { Buckets, GroupView, Load, LogView, Server } from "../parts/view-types.ts";

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
        ["listens on", portList(its.ports)],
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

const NEEDS = { none: "no token", token: "tokens", certificate: "client certificates" } as const;

/** Shows each address with its protocol, and what a client needs there. */
const portList = (ports: Server["ports"]): Part => html`<ul class="ports">
  ${ports.map(({ address, protocol, tls, auth }) => {
    const needs = `${tls ? "TLS" : "no TLS"}, ${NEEDS[auth]}`;
    return html`<li>${address} <span class="quiet">${protocol === "http" ? "" : "beanstalkd, "}${needs}</span></li>`;
  })}
</ul>`;

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

// Log page: disk usage of the log, and how long replies wait for the disk.

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
    ${damage(log)}
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

/** Shows what the walk over the files has found. */
function damage({ scrub }: LogView): Part {
  const { walkedAt, places } = scrub;
  const state = scrub.paused ? "paused" : scrub.failure === "" ? "runs" : scrub.failure;
  return html`<section class="card" aria-labelledby="damage-title">
    <h2 id="damage-title">Damage <small>found in files that are no longer written</small></h2>
    ${facts([
      ["the search", state],
      ["files checked", exact(scrub.files)],
      ["all checked", walkedAt === null ? "not since the start" : walkedAt],
      [
        "damaged places",
        scrub.found === 0 ? "none" : `${exact(scrub.found)}, ${exact(scrub.damaged)} still there`,
      ],
    ])}
    ${
      places.length === 0
        ? ""
        : html`<div class="table"><table>
            <caption class="hidden">Damaged places</caption>
            <thead><tr><th scope="col">file</th><th scope="col">offset</th><th scope="col">bytes</th>
              <th scope="col" class="left">jobs</th><th scope="col" class="left">repaired</th></tr></thead>
            <tbody>
              ${places.map(
                ({ file, offset, bytes: length, jobs, repairedAt }) => html`<tr>
                  <th scope="row">${file}</th><td>${exact(offset)}</td><td>${exact(length)}</td>
                  <td class="left">${jobs.join(", ") || "–"}</td><td class="left">${repairedAt ?? "not yet"}</td>
                </tr>`,
              )}
            </tbody>
          </table></div>`
    }
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

// Group page: the leader, its followers and their lag, and the state of the shared log.

/** Words and a sign, since colour must never be the only distinction. */
const ROLES: Readonly<Record<string, readonly [sign: string, words: string]>> = {
  primary: ["▸", "has the lead"],
  opening: ["◔", "has the lead, loads its jobs"],
  standby: ["◷", "follows"],
  starting: ["…", "starts"],
};
const NEARLY_FULL = 0.9;

export function showGroup({ group }: { readonly group: GroupView | null }): Part {
  if (group === null)
    return html`<div class="title"><h1>Group</h1></div>
      <section class="card">
        <div class="empty">
          <p>This server isn't in a group: if its machine is lost, so are its jobs.</p>
          <p>With <code>--replicate nats://a,b,c/GROUP</code>, another server has every acknowledged change, and takes over when this one fails.</p>
        </div>
      </section>`;
  const warnings = warningsOf(group);
  return html`
    <div class="title"><h1>Group ${group.name}</h1><span>this server ${wordsOf(group.role)}</span></div>
    <dl class="tiles">
      ${tile("epoch", exact(group.epoch), "how often the lead has changed hands")}
      ${tile("standbys", exact(group.standbys), group.standbys === 0 ? "no server follows" : "can take over")}
      ${tile("an append takes", mean(group), "until the shared log has stored it")}
      ${tile("not acknowledged", short(group.pendingBatches), "batches", exact(group.pendingBatches))}
    </dl>
    ${
      warnings.length === 0
        ? nothing
        : html`<section class="card unwell" aria-labelledby="attention">
            <h2 id="attention">Needs attention</h2>
            <ul class="list">
              ${warnings.map((text) => html`<li><span class="sign delayed" aria-hidden="true">▲</span><span class="grow">${text}</span></li>`)}
            </ul>
          </section>`
    }
    <section class="card" aria-labelledby="members">
      <h2 id="members">Servers <small>that answered within the last seconds</small></h2>
      ${group.members.length === 0 ? empty("None has answered yet.") : members(group.members)}
    </section>
    <div class="two">
      <section class="card" aria-labelledby="shared-log">
        <h2 id="shared-log">Shared log</h2>
        ${facts([
          ["takes", bytes(group.sharedLog.bytes)],
          ["of", group.sharedLog.limit === 0 ? "no limit" : bytes(group.sharedLog.limit)],
          ["appends of this server", exact(group.appends)],
          ["messages in flight", exact(group.messagesUnderWay)],
        ])}
        ${meter(fillOf(group))}
      </section>
      <section class="card" aria-labelledby="course">
        <h2 id="course">Of this server</h2>
        ${facts([
          ["last batch", exact(group.batch)],
          ["messages behind", exact(group.behindMessages)],
          ["appends in doubt, each checked", exact(group.doubts)],
          ["batches ignored", exact(group.ignoredBatches)],
          ["times frozen", exact(group.freezes)],
        ])}
      </section>
    </div>
  `;
}

const wordsOf = (role: string): string => ROLES[role]?.[1] ?? role;

const fillOf = ({ sharedLog: { bytes: used, limit } }: GroupView): number => (limit === 0 ? 0 : used / limit);

function mean({ appendMeanSeconds }: GroupView): string {
  return appendMeanSeconds === null ? "–" : `${(appendMeanSeconds * 1000).toPrecision(2)} ms`;
}

/** Same conditions as the alerts. */
function warningsOf(group: GroupView): string[] {
  const { role, mayServe, standbys, members: all } = group;
  const warnings: string[] = [];
  if (role === "primary" && !mayServe)
    warnings.push("The shared log does not answer: all commands wait until it does.");
  if (all.length > 0 && !all.some((each) => each.role === "primary" || each.role === "opening"))
    warnings.push("No server has the lead.");
  // If no server reports, not even this one, nothing is known about the others.
  if (all.length > 0 && role === "primary" && standbys === 0)
    warnings.push("No standby follows: if this server is lost, no server takes over.");
  for (const { address, isComplete, role: its } of all)
    if (its === "standby" && !isComplete)
      warnings.push(`${address} does not have all jobs yet, and can't take the lead.`);
  if (fillOf(group) > NEARLY_FULL) warnings.push("The shared log is nearly full: puts are refused.");
  return warnings;
}

function members(rows: GroupView["members"]): Part {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Servers of the group">
    <table class="cards">
      <caption class="hidden">Servers of the group</caption>
      <thead>
        <tr>
          <th scope="col">server</th><th scope="col" class="left">does</th><th scope="col">behind</th>
          <th scope="col" class="optional">batch</th><th scope="col" class="optional">epoch</th>
          <th scope="col" class="left optional">version</th><th scope="col" class="optional">pid</th>
        </tr>
      </thead>
      <tbody>
        ${repeat(
          rows,
          ({ node }) => node,
          (each) => html`<tr>
            <th scope="row" title="node ${each.node}">${each.address}${each.isThis ? html` <span class="quiet">this one</span>` : nothing}</th>
            <td class="left"><span aria-hidden="true">${ROLES[each.role]?.[0] ?? ""}</span> ${wordsOf(each.role)}</td>
            <td data-label=${each.role === "standby" ? "behind" : nothing}>${each.role === "standby" ? `${exact(each.behindMessages)} messages` : html`<span class="none">–</span>`}</td>
            <td class="optional">${exact(each.batch)}</td>
            <td class="optional">${exact(each.epoch)}</td>
            <td class="left optional">${each.version}</td>
            <td class="optional">${each.pid}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
