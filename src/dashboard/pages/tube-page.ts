// Tube page: numbers, charts, and a list of jobs with actions for the selected ones.

import { html, nothing } from "lit-html";
import { bytes, duration, exact, jobs as jobsInWords, rate, time } from "../parts/format.ts";
import type { Chart, PageContext } from "../parts/page-context.ts";
import {
  ALL_TUBES,
  ago,
  chartPlace,
  empty,
  facts,
  folded,
  isLog,
  type Part,
  scaleButton,
  stateTiles,
  tile,
  tubePath,
} from "../parts/parts.ts";
import type { TubeRow, TubeTimes } from "../parts/view-types.ts";
import { tubeFailures } from "./tube-failures.ts";
import { filterOf, jobsCard } from "./tube-jobs.ts";
import { type SettingsOfTube, tubeSettings } from "./tube-settings.ts";

const HISTORY_SECONDS = 3000;

export function showTube(
  { tube }: { readonly tube: (TubeRow & SettingsOfTube) | null },
  context: PageContext,
): Part {
  const { name } = context.place;
  if (tube === null)
    return html`<div class="title"><h1>${name}</h1>
        <div class="actions">${context.may("put") ? putButton(name, context) : nothing}</div>
      </div>
      <section class="card">
        ${empty("There is no such tube now: no client uses or watches it, and it has no jobs. It comes back with its next job.")}
      </section>`;
  const { jobs, rates, pause, watchers, waiters, users, bodyBytes, totals } = tube;
  return html`
    <div class="title">
      <h1>${name}</h1>
      ${pause === null ? nothing : html`<span class="badge delayed"><span aria-hidden="true">◷</span> paused</span>`}
      ${tubeActions(tube, context)}
    </div>
    ${notices(tube)}
    <dl class="tiles">${stateTiles(jobs)} ${tile("oldest ready", ago(tube.oldestReady))} ${emptyTile(tube)}</dl>
    <section class="card" aria-label="Figures">
      ${facts([
        ["in, out", `${rate(rates.puts)} /s, ${rate(rates.deletes)} /s`],
        ["timeouts", `${rate(rates.timeouts)} /s, ${exact(totals.timeouts)} in all`],
        ["disconnects", `${rate(rates.disconnects)} /s, ${exact(totals.disconnects)} in all`],
        ["wait, p50 and p99", timesOf(tube, ({ wait }) => wait)],
        ["hold, p50 and p99", timesOf(tube, ({ hold }) => hold)],
        ["watching, waiting", `${exact(watchers)}, ${exact(waiters)}`],
        ["using", exact(users)],
        ["bodies", bytes(bodyBytes)],
        ["total puts", exact(totals.puts)],
      ])}
    </section>
    ${tubeFailures(tube, context)} ${tubeSettings(tube, context)} ${charts(name, context)}
    ${jobsCard(jobs, context)}
  `;
}

const putButton = (name: string, { act }: PageContext): Part =>
  html`<button class="button main" type="button" @click=${() => act((actions) => actions.putJob(name))}>Put a job…</button>`;

/** States why the jobs of the tube are held up, and what to do about it. */
function notices({ name, jobs, pause, holdsDead }: TubeRow): Part {
  const ready = jobsInWords(jobs.ready);
  return html`${
    pause === null
      ? nothing
      : html`<p class="notice" role="status">Paused: workers get no jobs of ${name} for another ${duration(pause.timeLeft)}. ${jobs.ready === 0 ? "None is ready." : `${ready} ${jobs.ready === 1 ? "waits" : "wait"}.`}</p>`
  }${
    holdsDead
      ? html`<p class="notice">A dead-letter tube: its jobs died elsewhere. Workers here would only do them again. Find out why they died; when the cause is fixed, Redrive returns them.</p>`
      : nothing
  }`;
}

function timesOf({ times }: TubeRow, of: (times: TubeTimes) => TubeTimes["wait"]): Part {
  if (times === null)
    return html`<span title="The server measures at most 100 tubes: the first of those with series in metrics. If there is room, measuring starts within ten seconds.">not measured</span>`;
  const { count, p50, p99 } = of(times);
  const period = duration(times.seconds);
  const none = times.seconds === 0 ? "measured from now on" : `no job in ${period}`;
  const title = `${jobsInWords(count)} in the last ${period}`;
  return html`<span title=${title}>${count === 0 ? none : `${time(p50)}, ${time(p99)}`}</span>`;
}

/** Estimates the time until the tube is empty, at the pace of the last seconds. */
function emptyTile({ jobs, rates }: TubeRow): Part {
  const pace = rates.deletes - rates.puts;
  if (jobs.ready === 0) return tile("empty in", "–", "none is ready");
  if (pace >= PACE_MIN) return tile("empty in", duration(jobs.ready / pace), `at ${rate(pace)} /s`);
  return tile("empty in", "∞", pace > -PACE_MIN ? "it isn't shrinking" : `grows by ${rate(-pace)} /s`);
}

/** Jobs per second below which a tube counts as neither shrinking nor growing. */
const PACE_MIN = 0.05;

function tubeActions({ name, pause, holdsDead }: TubeRow, context: PageContext): Part {
  const { may, act } = context;
  const filter = filterOf(context);
  const tubes = [name];
  const redrives = may(ALL_TUBES) && (holdsDead || context.place.query.has("dead"));
  const button = (label: string, tone: string, open: Parameters<PageContext["act"]>[0]): Part =>
    html`<button class="button ${tone}" type="button" @click=${() => act(open)}>${label}</button>`;
  const manage = folded(
    "Actions",
    html`
    <button class="button" type="button" id="pause"
      @click=${() => act((actions) => (pause === null ? actions.pauseTubes(tubes) : actions.resumeTube(name)))}>${pause === null ? "Pause…" : "Resume…"}</button>
    ${redrives ? button("Redrive…", "", (actions) => actions.redriveTubes(tubes, filter)) : nothing}
    ${button("Kick…", "", (actions) => actions.kickTubes(tubes, filter))}
    ${button("Move…", "", (actions) => actions.moveTubes(tubes, filter))}
    ${button("Clear…", "bad", (actions) => actions.clearTubes(tubes, filter))}
  `,
  );
  return html`<div class="actions">${may("put") ? putButton(name, context) : nothing} ${may("manage") ? manage : nothing}</div>`;
}

// --- Charts ---

function charts(name: string, context: PageContext): Part {
  const line = (series: string, colour: string, dash?: readonly number[]) => ({
    series,
    label: series,
    colour,
    isRate: false,
    ...(dash === undefined ? {} : { dash }),
  });
  const of = (id: string, title: string, lines: Chart["lines"]): Chart => {
    const series = lines.map((each) => each.series).join();
    const url = tubePath(name, "history", `seconds=${HISTORY_SECONDS}&series=${series}`);
    return {
      id,
      title,
      url,
      lines,
      span: "The last 50 minutes",
      spanSeconds: HISTORY_SECONDS,
      isLog: isLog(context),
    };
  };
  const states = [
    line("ready", "ready"),
    line("reserved", "reserved", [8, 4]),
    line("delayed", "delayed", [3, 3]),
    line("buried", "buried", [12, 3, 3, 3]),
  ];
  const flow = [
    { ...line("puts", "ready"), label: "in /s", isRate: true },
    { ...line("deletes", "reserved", [8, 4]), label: "out /s", isRate: true },
    { ...line("timeouts", "buried", [3, 3]), label: "timeouts /s", isRate: true },
    { ...line("disconnects", "delayed", [12, 3, 3, 3]), label: "disconnects /s", isRate: true },
  ];
  return html`<div class="two">
    ${chartCard("states-chart", "Jobs by state", context)} ${chartCard("flow-chart", "Jobs a second", context)}
    ${context.charts([of("states-chart", "Jobs by state", states), of("flow-chart", "Jobs a second", flow)])}
  </div>`;
}

const chartCard = (
  id: string,
  title: string,
  context: PageContext,
): Part => html`<section class="card" aria-labelledby="${id}-title">
  <div class="heading"><h2 id="${id}-title">${title}</h2>${scaleButton(context)}</div>
  ${chartPlace(id)}
</section>`;
