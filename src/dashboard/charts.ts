// Charts: numbers and rates over time, as lines, with a sentence that says what they show. Loaded when a page has one.

import uPlot from "uplot";
import type { Chart, ChartLine } from "./desk.ts";

type Series = Readonly<Record<string, readonly (readonly [seconds: number, value: number])[]>>;

const HEIGHT = 190;
/** Asked for again so often, ms. */
const EACH_MS = 5000;
/** What is shown before the first point, where there is but one. */
const ALONE_SECONDS = 60;

interface Drawn {
  readonly place: HTMLElement;
  readonly url: string;
  readonly plot: LinePlot;
  atMs: number;
}

/** By the id of their place. */
const drawn = new Map<string, Drawn>();

/** Draws charts whose places are on the page; again where theirs is new, asks for other numbers, or a while has passed. */
export function drawCharts(charts: readonly Chart[]): void {
  for (const chart of charts) {
    const place = document.getElementById(chart.id);
    if (place === null || document.hidden) continue;
    const before = drawn.get(chart.id);
    const isSame = before?.place === place && before.url === chart.url;
    if (isSame && Date.now() - before.atMs < EACH_MS) continue;
    if (before?.place !== place) place.replaceChildren();
    const plot = before?.place === place ? before.plot : new LinePlot(place, chart.lines);
    drawn.set(chart.id, { place, url: chart.url, plot, atMs: Date.now() });
    void fill(chart, plot);
  }
}

async function fill({ id, url, lines, span }: Chart, plot: LinePlot): Promise<void> {
  const say = (sentence: string): void => {
    const words = document.getElementById(`${id}-words`);
    if (words !== null && words.textContent !== sentence) words.textContent = sentence;
  };
  try {
    const response = await fetch(url);
    if (!response.ok) return;
    const { series, kept = true } = (await response.json()) as { series: Series; kept?: boolean };
    const data = pointsOf(series, lines);
    plot.show(data);
    if (!kept)
      say("No history is kept yet: it begins within seconds, for as many tubes as have series in metrics.");
    else say(`${span}. ${inWords(data, lines)}`);
  } catch {
    // The server is gone, and the page says so.
  }
}

/** Of counters the rate a second between each two points, of numbers the points themselves. */
function pointsOf(series: Series, lines: readonly ChartLine[]): uPlot.AlignedData {
  const times: number[] = [];
  const values: number[][] = lines.map(() => []);
  const first = series[lines[0]!.series] ?? [];
  for (let at = 1; at < first.length; at++) {
    const [before, now] = [first[at - 1]![0], first[at]![0]];
    if (now <= before) continue;
    times.push(now);
    lines.forEach(({ series: name, isRate }, index) => {
      const [[, last], [, value]] = [series[name]![at - 1]!, series[name]![at]!];
      values[index]!.push(isRate ? Math.max(0, (value - last) / (now - before)) : value);
    });
  }
  return [times, ...values] as uPlot.AlignedData;
}

/** What the lines say, for who does not see them. */
function inWords([times, ...values]: uPlot.AlignedData, lines: readonly ChartLine[]): string {
  if (times.length === 0) return "There are no points yet.";
  const said = lines.map(({ label, isRate }, index) => {
    const points = values[index] as number[];
    const value = isRate ? points.reduce((sum, each) => sum + each, 0) / points.length : points.at(-1)!;
    return `${value.toFixed(isRate && value < 10 ? 1 : 0)} ${label}`;
  });
  return `${lines[0]!.isRate ? "On average" : "Now"} ${said.join(", ")}.`;
}

class LinePlot {
  readonly #place: HTMLElement;
  readonly #lines: readonly ChartLine[];
  #plot: uPlot | undefined;
  #colours = "";

  constructor(place: HTMLElement, lines: readonly ChartLine[]) {
    this.#place = place;
    this.#lines = lines;
    new ResizeObserver(() => this.#plot?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(
      place,
    );
  }

  show(data: uPlot.AlignedData): void {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => resolved(this.#place, style.getPropertyValue(`--${name}`));
    const colours = [...this.#lines.map((line) => colour(line.colour)), colour("quiet"), colour("line")];
    if (this.#plot !== undefined && this.#colours === colours.join()) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#colours = colours.join();
    const [quiet, line] = colours.slice(-2);
    const axis: uPlot.Axis = { stroke: quiet!, grid: { stroke: line!, width: 1 }, ticks: { show: false } };
    const options: uPlot.Options = {
      width: this.#place.clientWidth,
      height: HEIGHT,
      series: [
        {},
        ...this.#lines.map(({ label, dash }, index) => ({
          label,
          stroke: colours[index]!,
          width: 2,
          // Colour is never the only thing that tells lines apart.
          ...(dash === undefined ? {} : { dash: [...dash] }),
          // A point alone makes no line.
          points: { show: ({ data: [times] }: uPlot) => times.length === 1 },
        })),
      ],
      legend: { live: false },
      axes: [
        // As far apart as they are wide, and some.
        { ...axis, size: 30, space: 76, values: clock },
        { ...axis, size: 56, values: amounts },
      ],
      scales: {
        x: { range: (_plot, min, max) => [max > min ? min : max - ALONE_SECONDS, max] },
        y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] },
      },
    };
    this.#plot = new uPlot(options, data, this.#place);
  }
}

const AMOUNT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const amounts = (_plot: uPlot, splits: number[]): string[] => splits.map((value) => AMOUNT.format(value));

/** 14:05, or 14:05:30 where less than two minutes are shown. */
function clock(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  const format = new Intl.DateTimeFormat("en", step < 60 ? { ...options, second: "2-digit" } : options);
  return splits.map((seconds) => format.format(seconds * 1000));
}

/** A colour as a canvas understands it: light-dark() is CSS only. */
function resolved(place: HTMLElement, value: string): string {
  const probe = document.createElement("span");
  probe.style.color = value;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
