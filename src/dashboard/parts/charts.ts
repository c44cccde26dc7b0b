// Line charts of numbers and rates over time, each with an equivalent sentence and table. Loaded
// when a page has one.

import { html, nothing, render } from "lit-html";
import uPlot from "uplot";
import type { Part } from "./elements.ts";
import { duration, exact, rate } from "./format.ts";
import type { Chart, ChartLine } from "./page-context.ts";
import { answerOf, detailOf } from "./request.ts";

type Value = number | null;
type Series = Readonly<Record<string, readonly (readonly [seconds: number, value: Value])[]>>;
/** Times, and the values of each line at these times. */
type Data = [times: number[], ...values: Value[][]];

const HEIGHT = 190;
/** Refresh interval, ms. */
const EACH_MS = 5000;
/** Time shown before the first point, if there is only one. */
const ALONE_SECONDS = 60;
/** Maximum of table rows. With more points, each row stands for several. */
const ROWS_MAX = 30;
/** If less than this share of the span is known, as after a start, the sentence mentions it. */
const KNOWN_SHARE = 0.9;

interface Drawn {
  readonly place: HTMLElement;
  readonly plot: LinePlot;
  url: string;
  isLog: boolean;
  atMs: number;
  /** URL of the drawn numbers. */
  filledFrom: string;
}

/** Charts by the id of their element. */
const drawn = new Map<string, Drawn>();

/**
 * Draws the charts whose elements are on the page. Redraws one if its element is new, its URL has
 * changed or its data is old.
 */
export function drawCharts(charts: readonly Chart[]): void {
  for (const chart of charts) {
    const place = document.getElementById(chart.id);
    if (place === null || document.hidden) continue;
    let shown = drawn.get(chart.id);
    if (shown?.place !== place) {
      // It belonged to an earlier page.
      shown?.plot.end();
      place.replaceChildren();
      shown = {
        place,
        url: "",
        isLog: chart.isLog,
        plot: new LinePlot(place, chart),
        atMs: 0,
        filledFrom: "",
      };
      drawn.set(chart.id, shown);
    }
    const isSame = shown.url === chart.url && shown.isLog === chart.isLog;
    if (isSame && performance.now() - shown.atMs < EACH_MS) continue;
    shown.url = chart.url;
    shown.isLog = chart.isLog;
    shown.atMs = performance.now();
    void fill(chart, shown);
  }
}

async function fill(chart: Chart, shown: Drawn): Promise<void> {
  const { place, plot, url } = shown;
  const say = (sentence: string): void => {
    const words = document.getElementById(`${chart.id}-words`);
    if (words !== null && words.textContent !== sentence) words.textContent = sentence;
  };
  /** An older chart of the same numbers stays, with its sentence. */
  const sayFault = (fault: string): void => {
    if (shown.filledFrom !== url) say(fault);
  };
  try {
    const { status, content } = await answerOf(url);
    if (drawn.get(chart.id)?.url !== url) return;
    if (status !== 200) return sayFault(detailOf(content, status));
    const { series, kept = true } = content as { series: Series; kept?: boolean };
    const data = pointsOf(series, chart.lines);
    // Without a value, it would have a made-up axis.
    place.classList.toggle("no-values", !data.slice(1).some((values) => known(values).length > 0));
    plot.show(data, chart.isLog);
    shown.filledFrom = url;
    showTable(chart, data);
    if (!kept) say("No history yet: it starts within seconds, for the busiest tubes.");
    else say(inWords(data, chart));
  } catch (error) {
    sayFault((error as Error).message);
  }
}

/**
 * Returns the points: the rate between two samples for counters, the samples themselves for other
 * numbers.
 */
function pointsOf(series: Series, lines: readonly ChartLine[]): Data {
  const times: number[] = [];
  const values: Value[][] = lines.map(() => []);
  const first = series[lines[0]!.series] ?? [];
  for (let at = lines[0]!.isRate ? 1 : 0; at < first.length; at++) {
    const now = first[at]![0];
    const before = at === 0 ? Number.NEGATIVE_INFINITY : first[at - 1]![0];
    if (now <= before) continue;
    times.push(now);
    lines.forEach(({ series: name, isRate }, index) => {
      const value = series[name]![at]![1];
      const grown = isRate ? Math.max(0, (value ?? 0) - (series[name]![at - 1]![1] ?? 0)) : 0;
      values[index]!.push(isRate ? grown / (now - before) : value);
    });
  }
  return [times, ...values];
}

// --- Words and numbers ---

const writeOf = ({ write }: Chart, { isRate }: ChartLine): ((value: number) => string) =>
  write ?? (isRate ? rate : exact);

const mean = (values: readonly number[]): number =>
  values.reduce((sum, each) => sum + each, 0) / values.length;

const known = (values: readonly Value[]): number[] => values.filter((value) => value !== null);

/**
 * Describes the chart for users who can't see it: the mean of rates, the last value of other
 * numbers.
 */
function inWords([times, ...values]: Data, chart: Chart): string {
  if (times.length === 0) return "There are no points yet.";
  const seconds = Math.round(times.at(-1)! - times[0]!);
  const isAll = seconds >= chart.spanSeconds * KNOWN_SHARE;
  const span = isAll ? chart.span : `${chart.span}, with data for ${duration(seconds)}`;
  const { lines } = chart;
  const scale = chart.isLog ? " The scale is logarithmic above 1." : "";
  const said = lines.map((line, index) => {
    const points = known(values[index]!);
    if (points.length === 0) return undefined;
    return writeOf(chart, line)(line.isRate ? mean(points) : points.at(-1)!);
  });
  if (chart.inWords !== undefined) return `${span}. ${chart.inWords(said)}`;
  // The unit stays with what it counts: "puts /s".
  const unbroken = (label: string): string => label.replaceAll(" ", "\u00a0");
  const list = lines.map(({ label }, index) => `${said[index] ?? "no"} ${unbroken(label)}`).join(", ");
  return `${span}. ${lines[0]!.isRate ? "On average" : "Now"} ${list}.${scale}`;
}

/** Shows a collapsible table, whose rows are created only while it is open. */
function showTable(chart: Chart, data: Data): void {
  const place = document.getElementById(`${chart.id}-table`);
  if (place === null) return;
  const isOpen = place.querySelector("details")?.open === true;
  render(
    html`<details class="more" @toggle=${() => showTable(chart, data)}>
      <summary>As a table</summary>
      ${isOpen ? table(chart, data) : nothing}
    </details>`,
    place,
  );
}

function table(chart: Chart, [times, ...values]: Data): Part {
  const each = Math.max(1, Math.ceil(times.length / ROWS_MAX));
  const row = (from: number): Part => {
    const last = Math.min(from + each, times.length) - 1;
    const cell = (line: ChartLine, index: number): string => {
      const points = known(values[index]!.slice(from, last + 1));
      if (points.length === 0) return "–";
      return writeOf(chart, line)(line.isRate ? mean(points) : points.at(-1)!);
    };
    return html`<tr>
      <th scope="row">${CLOCK.format(times[last]! * 1000)}</th>
      ${chart.lines.map((line, index) => html`<td>${cell(line, index)}</td>`)}
    </tr>`;
  };
  // Starts at the newest point; the oldest row may cover fewer points.
  const rows: Part[] = [];
  for (let end = times.length; end > 0; end -= each) rows.push(row(Math.max(0, end - each)));
  return html`<div class="scroll tall" tabindex="0" role="region" aria-label="${chart.title}, as a table">
    <table>
      <caption class="hidden">${chart.title}, newest first${each === 1 ? "" : `; each row stands for ${each} points`}</caption>
      <thead><tr><th scope="col">until</th>${chart.lines.map(({ label }) => html`<th scope="col">${label}</th>`)}</tr></thead>
      <tbody>${rows}</tbody>
    </table>
  </div>`;
}

const CLOCK = new Intl.DateTimeFormat("en", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

// --- Lines ---

class LinePlot {
  readonly #place: HTMLElement;
  readonly #chart: Chart;
  readonly #resized: ResizeObserver;
  #plot: uPlot | undefined;
  /** Colours and scale of the drawn chart. */
  #drawnAs = "";

  constructor(place: HTMLElement, chart: Chart) {
    this.#place = place;
    this.#chart = chart;
    this.#resized = new ResizeObserver(() =>
      this.#plot?.setSize({ width: place.clientWidth, height: HEIGHT }),
    );
    this.#resized.observe(place);
  }

  /** Destroys the chart: uPlot references all charts until then. */
  end(): void {
    this.#resized.disconnect();
    this.#plot?.destroy();
  }

  show(data: Data, isLog: boolean): void {
    const { lines, write } = this.#chart;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => resolved(this.#place, style.getPropertyValue(`--${name}`));
    const colours = [...lines.map((line) => colour(line.colour)), colour("quiet"), colour("line")];
    const drawnAs = `${colours.join()} ${isLog}`;
    if (this.#plot !== undefined && this.#drawnAs === drawnAs) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#drawnAs = drawnAs;
    const [quiet, line] = colours.slice(-2);
    const axis: uPlot.Axis = { stroke: quiet!, grid: { stroke: line!, width: 1 }, ticks: { show: false } };
    const options: uPlot.Options = {
      width: this.#place.clientWidth,
      height: HEIGHT,
      series: [
        {},
        ...lines.map(({ label, dash }, index) => ({
          label,
          stroke: colours[index]!,
          width: 2,
          // Dashes, since colour must never be the only distinction.
          ...(dash === undefined ? {} : { dash: [...dash] }),
          // A single point makes no line.
          points: { show: true, size: 5, filter: pointsAlone },
          ...(index === 0 ? { fill: colours[0]!.replace("rgb(", "rgba(").replace(")", ", 0.08)") } : {}),
        })),
      ],
      // A sample of the line with its dashes.
      legend: {
        live: false,
        markers: { width: 0, fill: (_plot, index) => pieceOf(colours[index - 1]!, lines[index - 1]!.dash) },
      },
      axes: [
        { ...axis, size: 30, space: labelSpace, incrs: [...STEPS], values: clock },
        {
          ...axis,
          size: 56,
          values: (_plot, splits) => splits.map(write ?? ((value) => AMOUNT.format(value))),
        },
      ],
      scales: {
        // Around a single point, uPlot would show the whole day behind it.
        x: {
          range: ({ data: [times] }, min, max) =>
            times.length > 1 ? [min, max] : [min - ALONE_SECONDS, min],
        },
        y: {
          // A logarithm has no 0; asinh is linear up to 1 and logarithmic above.
          ...(isLog ? { distr: 4, asinh: 1 } : {}),
          range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1],
        },
      },
    };
    this.#plot = new uPlot(options, data, this.#place);
  }
}

const AMOUNT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
/** Returns a CSS background that looks like the line. */
function pieceOf(colour: string, dash: readonly number[] = []): string {
  if (dash.length === 0) return colour;
  let at = 0;
  const stops = dash.map((length, index) => {
    const stop = `${index % 2 === 0 ? colour : "transparent"} ${at}px ${at + length}px`;
    at += length;
    return stop;
  });
  return `repeating-linear-gradient(90deg, ${stops.join(", ")})`;
}

function pointsAlone({ data }: uPlot, line: number): number[] {
  const values = data[line]!;
  const isAlone = (at: number): boolean =>
    (values[at] ?? null) !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
  return Array.from(values, (_value, at) => at).filter(isAlone);
}

/** Possible distances of two labels on the axis of time, in seconds. */
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200];

/**
 * Returns how far apart labels must be: as far as they are wide, plus a margin. They have no
 * seconds if half a minute would be too narrow for such a label.
 */
function labelSpace(_plot: uPlot, _axis: number, min: number, max: number, width: number): number {
  return (30 * width) / (max - min) < SPACE_OF_SECONDS ? SPACE_OF_MINUTES : SPACE_OF_SECONDS;
}

const SPACE_OF_SECONDS = 76;
const SPACE_OF_MINUTES = 50;

/** Formats 14:05, or 14:05:30 if the labels are less than a minute apart. */
function clock(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  const format = new Intl.DateTimeFormat("en", step < 60 ? { ...options, second: "2-digit" } : options);
  return splits.map((seconds) => format.format(seconds * 1000));
}

/** Resolves a colour for the canvas, which doesn't understand light-dark(). */
function resolved(place: HTMLElement, value: string): string {
  const probe = document.createElement("span");
  probe.style.color = value;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
