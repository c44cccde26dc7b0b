// The page: state, controls and what was found.

import { html, nothing, render, type TemplateResult } from "lit-html";
import { FAULTS, type Fault, needsLog } from "../../../simulation/faults.ts";
import type { FaultAt, Told, WatchedResult } from "../control.ts";
import type { Snapshot } from "../snapshot.ts";
import { readAddress, seedOf, stepsOf, writeAddress } from "./address.ts";
import { animate, messagesBetween } from "./messages.ts";
import { outcomeOf } from "./outcome.ts";
import { HEIGHT, pictureOf, wiresOf } from "./picture.ts";
import { Run } from "./run.ts";

/** Steps of threads a second; 0 is as many as possible. */
const SPEEDS = [1, 2, 4, 8, 15, 30, 60, 120, 300, 1000, 3000, 0] as const;
const FIRST_SPEED = 3;
/** A replay of a find is shown at the chosen pace from so many steps before it. */
const STEPS_BEFORE_FIND = 4;
const ACTS_SHOWN = 40;
const DOT_MS_MAX = 700;
const DOT_MS_MIN = 180;

const FAULT_NAMES: Readonly<Record<Fault, readonly [name: string, title: string]>> = {
  kill: ["Kill the process", "kill -9: files stay as they are, memory is gone"],
  power: ["Cut the power", "Of what was not synced, anything may survive"],
  torn: ["Tear a write", "The power fails between a write and its sync: each sector is there or not"],
  slow: ["Slow the disk", "Each sync takes up to two seconds until the process ends"],
  full: ["Fill the disk", "Almost no room is left; a second time makes room"],
  cut: ["Cut the network", "All connections of one acceptor break at once"],
};

const state = {
  ...readAddress(location.hash),
  bugs: [] as readonly string[],
  /** Index into SPEEDS. */
  speed: FIRST_SPEED,
  runs: false,
  step: 0,
  shown: undefined as Snapshot | undefined,
  acts: [] as string[],
  faults: readAddress(location.hash).faults as FaultAt[],
  result: undefined as WatchedResult | undefined,
  searching: undefined as number | undefined,
};
let run: Run | undefined;

const app = document.querySelector<HTMLElement>("#app")!;
const layer = (): SVGGElement | null => app.querySelector<SVGGElement>("#dots");

function start(options: { search?: boolean; paceFrom?: number; runs?: boolean } = {}): void {
  const { search = false, paceFrom = 0, runs = true } = options;
  run?.end();
  layer()?.replaceChildren();
  Object.assign(state, {
    step: 0,
    shown: undefined,
    acts: [],
    result: undefined,
    searching: undefined,
    runs,
  });
  const { seed, steps, bug, faults } = state;
  history.replaceState(null, "", writeAddress({ seed, steps, bug, faults }));
  const order = { seed: search ? 1 : seed, steps, bug, faults: search ? [] : faults, search, paceFrom };
  run = new Run(order, SPEEDS[state.speed]!, onTold);
  run.runs = runs;
  draw();
}

function onTold(told: Told): void {
  if (told.kind === "ready") state.bugs = told.bugs;
  else if (told.kind === "picture") onPicture(told.picture, told.step, told.acts);
  else if (told.kind === "fault") {
    state.faults = [...state.faults, [told.step, told.fault]];
    history.replaceState(null, "", writeAddress(state));
  } else if (told.kind === "searching") state.searching = told.seed;
  else onEnd(told.seed, told.result, told.isSearch);
  draw();
}

function onPicture(picture: Snapshot, step: number, acts: readonly string[]): void {
  const before = state.shown;
  state.shown = picture;
  state.step = step;
  state.acts = [...acts.toReversed(), ...state.acts].slice(0, ACTS_SHOWN);
  const dots = layer();
  if (before === undefined || dots === null || document.hidden) return;
  const perSecond = SPEEDS[state.speed]!;
  const durationMs = perSecond === 0 ? DOT_MS_MIN : 3000 / perSecond;
  const messages = messagesBetween(before, picture, wiresOf(picture, pictureWidth()));
  animate(dots, messages, Math.min(DOT_MS_MAX, Math.max(DOT_MS_MIN, durationMs)));
}

function onEnd(seed: number, result: WatchedResult, isSearch: boolean): void {
  state.result = result;
  state.runs = false;
  state.step = result.step;
  if (!isSearch || result.found === undefined) return;
  state.seed = seed;
  state.faults = [];
  start({ paceFrom: Math.max(0, result.step - STEPS_BEFORE_FIND) });
}

function setRuns(runs: boolean): void {
  if (runs && (run === undefined || state.result !== undefined)) {
    start();
    return;
  }
  state.runs = runs;
  if (run !== undefined) run.runs = runs;
  draw();
}

function single(): void {
  if (run === undefined || state.result !== undefined) start({ runs: false });
  else if (state.runs) setRuns(false);
  else run.single();
}

function choose(change: Partial<Pick<typeof state, "seed" | "steps" | "bug">>): void {
  Object.assign(state, change, { faults: [] });
  start({ runs: state.runs });
}

const numberOf = (event: Event): string => (event.target as HTMLInputElement).value;

function pictureWidth(): number {
  const frame = app.querySelector<HTMLElement>("#frame");
  return Math.max(280, Math.round(frame?.clientWidth ?? 280));
}

function draw(): void {
  render(pageOf(), app);
}

function pageOf(): TemplateResult {
  return html`<main class="page">
    <header class="intro">
      <h1>A whole queue server, played from one number</h1>
      <p>
        This is the simulator that <code>npm test</code> runs, in your browser: the server's own code for
        acceptors, rings, shards and log, on virtual time, a virtual disk and clients that misbehave. The seed
        draws which thread goes on, who is held up, what clients send and when things break. After every step,
        a model of the queue checks every job, and every reply as it leaves.
      </p>
    </header>
    <section class="card picture" aria-label="The server">
      ${factsOf()} ${outcomeOf(state)}
      <div id="frame">${drawingOf()}</div>
      <p class="legend">
        ${[
          ["ready", "ready jobs"],
          ["reserved", "reserved"],
          ["delayed", "delayed, or bytes not synced"],
          ["buried", "buried"],
          ["moving", "on their way to another shard"],
        ].map(([kind, text]) => html`<span><i class="swatch ${kind}"></i>${text}</span>`)}
        <span>a wire is the thicker the fuller its ring is; the outlined box runs</span>
      </p>
    </section>
    ${runCard()} ${faultCard()} ${bugCard()}
    <section class="card acts">
      <h2>What happens</h2>
      <ol class="list mono">
        ${state.acts.map((act) => html`<li title=${act}>${act}</li>`)}
      </ol>
    </section>
  </main>`;
}

function drawingOf(): TemplateResult {
  const width = pictureWidth();
  return html`<svg viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-label="Clients, acceptors, shards, log and disk">
    ${state.shown === undefined ? nothing : pictureOf(state.shown, width)}
    <g id="dots"></g>
  </svg>`;
}

function factsOf(): TemplateResult {
  const { shown, step, steps, seed } = state;
  const seconds = ((shown?.nowMs ?? 0) / 1000).toFixed(3);
  return html`<p class="facts">
    <span>seed <b>${seed}</b></span>
    <span>step <b>${step}</b> of ${steps}</span>
    <span>threads' steps <b>${shown?.schedulerSteps ?? 0}</b></span>
    <span>process <b>${shown?.process ?? 1}</b></span>
    <span>virtual time <b>${seconds} s</b></span>
  </p>`;
}

function runCard(): TemplateResult {
  const { seed, steps, speed, runs } = state;
  const perSecond = SPEEDS[speed]!;
  return html`<section class="card group run">
    <h2>Run</h2>
    <div class="row">
      <button class="main" id="play" @click=${() => setRuns(!runs)}>${runs ? "Pause" : "Play"}</button>
      <button id="single" @click=${single}>One step</button>
      <button @click=${() => start({ runs })}>Restart</button>
    </div>
    <div class="row">
      <label>Seed
        <input id="seed" class="number" inputmode="numeric" .value=${`${seed}`}
          @change=${(event: Event) => choose({ seed: seedOf(numberOf(event), seed) })} />
      </label>
      <label>Steps
        <input id="steps" class="number" inputmode="numeric" .value=${`${steps}`}
          @change=${(event: Event) => choose({ steps: stepsOf(numberOf(event), steps) })} />
      </label>
    </div>
    <div class="row">
      <button @click=${() => choose({ seed: seed + 1 })}>Next seed</button>
      <button @click=${() => choose({ seed: 1 + Math.floor(Math.random() * 1e6) })}>Any seed</button>
    </div>
    <label>Speed: ${perSecond === 0 ? "as fast as it goes" : `${perSecond} steps of threads a second`}
      <input id="speed" type="range" min="0" max=${SPEEDS.length - 1} .value=${`${speed}`}
        @input=${(event: Event) => {
          state.speed = Number(numberOf(event));
          if (run !== undefined) run.speed = SPEEDS[state.speed]!;
          draw();
        }} />
    </label>
  </section>`;
}

function faultCard(): TemplateResult {
  const hasEnded = state.result !== undefined || run === undefined;
  const hasLog = state.shown?.log !== undefined;
  return html`<section class="card group break">
    <h2>Break something</h2>
    <div class="faults">
      ${FAULTS.map(
        (fault, index) => html`<button
          data-fault=${fault}
          title=${FAULT_NAMES[fault][1]}
          ?disabled=${hasEnded || (needsLog(fault) && !hasLog)}
          @click=${() => run?.strike(index)}
        >${FAULT_NAMES[fault][0]}</button>`,
      )}
    </div>
    <p class="hint">
      ${
        state.faults.length === 0
          ? "The fault takes the place of the run's next step. Jobs that were acknowledged must survive it."
          : html`By hand: ${state.faults.map(([step, fault]) => `${fault} at step ${step}`).join(", ")}. Restart
            plays them again; the address of this page has them.`
      }
    </p>
  </section>`;
}

function bugCard(): TemplateResult {
  const { bug, bugs, searching, result } = state;
  const isSearching = searching !== undefined && result === undefined;
  return html`<section class="card group bug">
    <h2>Plant a bug</h2>
    <label><span>${bugs.length} bugs that <code>npm test</code> plants and must find</span>
      <select id="bug" @change=${(event: Event) => choose({ bug: numberOf(event) })}>
        <option value="" ?selected=${bug === ""}>none: the server as it is</option>
        ${bugs.map((name) => html`<option value=${name} ?selected=${name === bug}>${name}</option>`)}
      </select>
    </label>
    <button id="search" ?disabled=${bug === "" || isSearching} @click=${() => start({ search: true })}>
      ${isSearching ? `Looking at seed ${searching}…` : "Find a seed that shows it"}
    </button>
    <p class="hint">The search plays seeds from 1 on at full speed, then shows the end of the first that fails.</p>
  </section>`;
}

addEventListener("resize", draw);
addEventListener("hashchange", () => {
  const { seed, steps, bug, faults } = readAddress(location.hash);
  Object.assign(state, { seed, steps, bug, faults });
  start({ runs: state.runs });
});
draw();
start({ runs: !matchMedia("(prefers-reduced-motion: reduce)").matches });
