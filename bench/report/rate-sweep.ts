// The knee: p50 and p99 by requested rate.
import { formatCount } from "../result/figures.ts";
import type { ResultLine } from "../result/result-line.ts";
import { logAxis, tickMicros } from "./log-axis.ts";
import { element, escapeText, label } from "./markup.ts";

const WIDTH = 860;
const HEIGHT = 320;
const LEFT = 64;
const RIGHT = 20;
const TOP = 14;
const BOTTOM = 44;
const RATE_TICKS = 5;

export function rateSweep(lines: readonly ResultLine[]): string {
  return lines.map(sweepChart).join("");
}

function sweepChart(line: ResultLine): string {
  const points = line.servers.flatMap(({ sweep = [] }) => sweep);
  if (points.length === 0) return "";
  const y = logAxis(
    Math.min(...points.map(({ p50 }) => p50)),
    Math.max(...points.map(({ p99 }) => p99)),
    HEIGHT - BOTTOM,
    TOP,
  );
  const step = niceStep(Math.max(...points.map(({ rate }) => rate)) / RATE_TICKS);
  const highest = step * Math.ceil(Math.max(...points.map(({ rate }) => rate)) / step);
  const x = (rate: number) => LEFT + (rate / highest) * (WIDTH - LEFT - RIGHT);

  const parts: string[] = [];
  for (const tick of y.ticks) {
    parts.push(
      element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(tick), y2: y.at(tick), class: "grid" }),
    );
    parts.push(label(LEFT - 6, y.at(tick) + 4, tickMicros(tick), { class: "tick", "text-anchor": "end" }));
  }
  for (let rate = 0; rate <= highest; rate += step) {
    parts.push(element("line", { x1: x(rate), x2: x(rate), y1: TOP, y2: HEIGHT - BOTTOM, class: "grid" }));
    parts.push(
      label(x(rate), HEIGHT - BOTTOM + 16, formatCount(rate).replace(/\.0+ /, " "), {
        class: "tick",
        "text-anchor": "middle",
      }),
    );
  }
  parts.push(
    label((LEFT + WIDTH) / 2, HEIGHT - 8, "commands/s asked for", { class: "tick", "text-anchor": "middle" }),
  );
  line.servers.forEach(({ sweep = [] }, index) => {
    for (const percentile of ["p50", "p99"] as const) {
      const path = sweep
        .map((point) => `${x(point.rate).toFixed(1)},${y.at(point[percentile]).toFixed(1)}`)
        .join(" ");
      parts.push(element("polyline", { points: path, class: `curve server${index} ${percentile}` }));
      for (const point of sweep) {
        parts.push(
          element("circle", {
            cx: x(point.rate),
            cy: y.at(point[percentile]),
            r: 3,
            class: `dot server${index}`,
          }),
        );
      }
    }
  });
  const svg = element(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "latency by rate" },
    parts.join(""),
  );
  return `<figure class="wide"><figcaption>${escapeText(line.title.split(": ")[0]!)}; solid p99, dashed p50</figcaption>${svg}</figure>`;
}

/** 1, 2 or 5 times a power of ten, at least as large. */
function niceStep(least: number): number {
  const size = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * size).find((step) => step >= least)!;
}
