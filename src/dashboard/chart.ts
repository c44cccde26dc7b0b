// Rates of the whole server over time, as lines. Loaded when the first page is there.

import uPlot from "uplot";

export type Series = Readonly<Record<string, readonly (readonly [seconds: number, value: number])[]>>;

const SHOWN = ["puts", "reserves", "deletes"] as const;
const HEIGHT = 220;

/** Rates a second of counters, between each two points. */
function ratesOf(series: Series): uPlot.AlignedData {
  const times: number[] = [];
  const rates: number[][] = SHOWN.map(() => []);
  const first = series[SHOWN[0]] ?? [];
  for (let at = 1; at < first.length; at++) {
    const [before, now] = [first[at - 1]![0], first[at]![0]];
    if (now <= before) continue;
    times.push(now);
    SHOWN.forEach((name, index) => {
      const points = series[name]!;
      rates[index]!.push(Math.max(0, (points[at]![1] - points[at - 1]![1]) / (now - before)));
    });
  }
  return [times, ...rates] as uPlot.AlignedData;
}

/** What the lines say, for who does not see them. */
export function inWords(series: Series): string {
  const [, ...rates] = ratesOf(series);
  const said = SHOWN.map((name, index) => {
    const values = rates[index] as number[];
    const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    return `${mean.toFixed(mean < 10 ? 1 : 0)} ${name} a second`;
  });
  return `On average ${said.join(", ")}.`;
}

export class RateChart {
  readonly #place: HTMLElement;
  #plot: uPlot | undefined;
  #colours = "";

  constructor(place: HTMLElement) {
    this.#place = place;
    new ResizeObserver(() => this.#plot?.setSize({ width: this.#place.clientWidth, height: HEIGHT })).observe(
      place,
    );
  }

  show(series: Series): void {
    const data = ratesOf(series);
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => resolved(this.#place, style.getPropertyValue(name));
    const colours = ["--ready", "--reserved", "--delayed", "--quiet", "--line"].map(colour);
    if (this.#plot !== undefined && this.#colours === colours.join()) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#colours = colours.join();
    const [, , , quiet, line] = colours;
    const axis: uPlot.Axis = { stroke: quiet!, grid: { stroke: line!, width: 1 }, ticks: { show: false } };
    const options: uPlot.Options = {
      width: this.#place.clientWidth,
      height: HEIGHT,
      series: [
        {},
        ...SHOWN.map((label, index) => ({
          label: `${label} /s`,
          stroke: colours[index]!,
          width: 2,
          points: { show: false },
        })),
      ],
      legend: { live: false },
      axes: [
        { ...axis, values: clock },
        { ...axis, size: 56 },
      ],
      scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] } },
    };
    this.#plot = new uPlot(options, data, this.#place);
  }
}

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
