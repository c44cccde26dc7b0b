// Bars of the ratio between the first server and the others, one per case, around the line at 1.
import type { ResultLine } from "../result/result-line.ts";
import { element, label } from "./markup.ts";

const WIDTH = 860;
const LABEL_WIDTH = 330;
const ROW = 26;
const TOP = 28;
const RIGHT = 60;

interface Bar {
  readonly text: string;
  readonly ratio: number;
}

export function ratioBars(lines: readonly ResultLine[]): string {
  const bars = lines.flatMap(barsOf);
  if (bars.length === 0) return "";
  const octaves = Math.max(1, Math.ceil(Math.max(...bars.map(({ ratio }) => Math.log2(ratio))) * 1.05));
  const leftOctaves = bars.some(({ ratio }) => ratio < 1) ? Math.max(1, Math.ceil(lowest(bars))) : 0;
  const plot = WIDTH - LABEL_WIDTH - RIGHT;
  const x = (ratio: number) =>
    LABEL_WIDTH + ((Math.log2(ratio) + leftOctaves) / (octaves + leftOctaves)) * plot;
  const height = TOP + bars.length * ROW + 8;

  const parts: string[] = [];
  for (let octave = -leftOctaves; octave <= octaves; octave++) {
    const at = x(2 ** octave);
    parts.push(
      element("line", { x1: at, x2: at, y1: TOP - 6, y2: height, class: octave === 0 ? "one" : "grid" }),
    );
    parts.push(
      label(at, TOP - 12, octave < 0 ? `1/${2 ** -octave}` : `${2 ** octave}`, {
        class: "tick",
        "text-anchor": "middle",
      }),
    );
  }
  bars.forEach(({ text, ratio }, row) => {
    const y = TOP + row * ROW;
    const from = Math.min(x(1), x(ratio));
    const size = Math.max(1, Math.abs(x(ratio) - x(1)));
    parts.push(label(LABEL_WIDTH - 10, y + 14, text, { "text-anchor": "end" }));
    parts.push(
      element("rect", {
        x: from,
        y: y + 2,
        width: size,
        height: ROW - 9,
        rx: 2,
        class: ratio >= 1 ? "ahead" : "behind",
      }),
    );
    parts.push(label(Math.max(x(ratio), x(1)) + 6, y + 14, `${ratio.toFixed(2)} x`, { class: "value" }));
  });
  return element(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "ratios" },
    parts.join(""),
  );
}

function barsOf(line: ResultLine): Bar[] {
  return line.ratios.flatMap((ratio, index) => {
    const against = line.ratios.length > 1 ? ` (to ${line.servers[index + 1]!.server})` : "";
    return ratio > 0 ? [{ text: line.title.split(": ")[0]! + against, ratio }] : [];
  });
}

function lowest(bars: readonly Bar[]): number {
  return -Math.min(...bars.map(({ ratio }) => Math.log2(ratio)));
}
