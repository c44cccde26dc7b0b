// Latency by percentile, both on logarithmic scales, in one small chart per case, because the tail
// is what differs.
import { Latency } from "../load/latency.ts";
import type { ResultLine } from "../result/result-line.ts";
import { logAxis, tickMicros } from "./log-axis.ts";
import { element, escapeText, label } from "./markup.ts";

const WIDTH = 420;
const HEIGHT = 250;
const LEFT = 56;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 34;
const STEPS = 80;
const PERCENTILES = ["0", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];

interface Curve {
  readonly serverIndex: number;
  readonly points: readonly [nines: number, micros: number][];
}

export function percentileCurves(lines: readonly ResultLine[]): string {
  return lines.map(figureOf).join("");
}

function figureOf(line: ResultLine): string {
  const curves = line.servers.flatMap(({ latency }, serverIndex): Curve[] =>
    latency === undefined ? [] : [{ serverIndex, points: pointsOf(new Latency(latency)) }],
  );
  if (curves.length === 0) return "";
  return `<figure><figcaption>${escapeText(line.title)}</figcaption>${chart(curves)}</figure>`;
}

/** From the fastest to the one reply that was slowest; nines are log10(1 / share above). */
function pointsOf(latency: Latency): [number, number][] {
  const last = Math.min(PERCENTILES.length - 1, Math.log10(latency.count));
  return Array.from({ length: STEPS + 1 }, (_, step) => {
    const nines = (last * step) / STEPS;
    return [nines, Math.max(1, latency.percentileMicros(100 * (1 - 10 ** -nines)))];
  });
}

function chart(curves: readonly Curve[]): string {
  const micros = curves.flatMap(({ points }) => points.map(([, value]) => value));
  const y = logAxis(Math.min(...micros), Math.max(...micros), HEIGHT - BOTTOM, TOP);
  const most = Math.max(...curves.map(({ points }) => points.at(-1)![0]));
  const x = (nines: number) => LEFT + (nines / most) * (WIDTH - LEFT - RIGHT);
  const parts: string[] = [];
  for (const tick of y.ticks) {
    parts.push(
      element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(tick), y2: y.at(tick), class: "grid" }),
    );
    parts.push(label(LEFT - 6, y.at(tick) + 4, tickMicros(tick), { class: "tick", "text-anchor": "end" }));
  }
  PERCENTILES.slice(0, Math.floor(most) + 1).forEach((text, nines) => {
    parts.push(element("line", { x1: x(nines), x2: x(nines), y1: TOP, y2: HEIGHT - BOTTOM, class: "grid" }));
    parts.push(
      label(x(nines), HEIGHT - BOTTOM + 16, text, {
        class: "tick",
        "text-anchor": nines === 0 ? "start" : x(nines) > WIDTH - 40 ? "end" : "middle",
      }),
    );
  });
  for (const { serverIndex, points } of curves) {
    const path = points.map(([nines, value]) => `${x(nines).toFixed(1)},${y.at(value).toFixed(1)}`).join(" ");
    parts.push(element("polyline", { points: path, class: `curve server${serverIndex}` }));
  }
  return element(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "latency by percentile" },
    parts.join(""),
  );
}
