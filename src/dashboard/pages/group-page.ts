// Group page: the leader, its followers and their lag, and the state of the shared log.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { bytes, exact, short } from "../parts/format.ts";
import { empty, facts, meter, type Part, tile } from "../parts/parts.ts";
import type { GroupView } from "../parts/view-types.ts";

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
