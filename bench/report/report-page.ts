// The report as one self-contained HTML page: ratios, table, latency curves, rate sweep, machine,
// caveats.
import type { ResultLine } from "../result/result-line.ts";
import { caveats } from "./caveats.ts";
import { figureTable } from "./figure-table.ts";
import { escapeText } from "./markup.ts";
import { PAGE_STYLE } from "./page-style.ts";
import { percentileCurves } from "./percentile-curves.ts";
import { rateSweep } from "./rate-sweep.ts";
import { ratioBars } from "./ratio-bars.ts";

export function reportPage(lines: readonly ResultLine[]): string {
  const first = lines[0];
  if (!first) throw new Error("A report needs results.");
  const names = first.servers.map(({ server }) => server);
  const title = names.length > 1 ? `${names[0]} and ${names.slice(1).join(", ")}` : `${names[0]}`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Bench: ${escapeText(title)}</title><style>${PAGE_STYLE}</style></head><body>
<h1>${escapeText(title)}</h1>
<p class="dim">${escapeText(subtitle(first))}</p>
${section("How many times better", ratioBars(lines), ratioText(names))}
${section("Figures", `<div class="scroll">${figureTable(lines)}</div>`, "Medians of the turns; the small range is from the worst turn to the best.")}
${section("Latency by percentile", `${legend(names)}<div class="charts">${percentileCurves(lines)}</div>`, "All turns together. The further right, the rarer.", percentileCurves(lines))}
${section("Rate sweep", `${legend(names)}${rateSweep(lines)}`, "Each server at shares of what it reached without a rate. Latency counts from the time at which a command should have been sent, so waiting before it is sent counts too.", rateSweep(lines))}
${section("Machine", machineList(first))}
${section(
  "What the numbers don't say",
  `<ul>${caveats(lines)
    .map((text) => `<li>${escapeText(text)}</li>`)
    .join("")}</ul>`,
)}
</body></html>
`;
}

function section(heading: string, content: string, text = "", needed = content): string {
  if (needed === "") return "";
  return `<section><h2>${escapeText(heading)}</h2>${text === "" ? "" : `<p class="dim">${escapeText(text)}</p>`}${content}</section>`;
}

function subtitle({ run, generator, machine }: ResultLine): string {
  const load = generator === "native" ? "load from the generator in C" : "load from Node workers";
  return `${run.slice(0, 16).replace("T", " ")} UTC, ${load}, ${machine.cores} cores shared with it`;
}

function ratioText(names: readonly string[]): string {
  return (
    `${names[0]} against ${names.slice(1).join(", ")}: commands per second, or the figure the case is about (memory, time, latency), ` +
    "always so that above 1 is better. The scale doubles from line to line."
  );
}

function legend(names: readonly string[]): string {
  const entries = names.map(
    (name, index) => `<span><i class="swatch server${index}"></i>${escapeText(name)}</span>`,
  );
  return `<p class="legend">${entries.join("")}</p>`;
}

function machineList(line: ResultLine): string {
  const { machine: m } = line;
  const facts: [string, string][] = [
    ["CPU", `${m.cpu}, ${m.cores} cores`],
    ["Memory", `${m.memoryGib} GiB`],
    ["Kernel", m.kernel],
    ["Node", m.node],
    ["Logs on", m.disk],
    ["Commit", m.commit],
    ["Run", line.run],
    ["Bench flags", line.flags === "" ? "none" : line.flags],
    ...line.servers.map(({ server, description }): [string, string] => [server, description]),
  ];
  return `<dl>${facts.map(([name, value]) => `<dt>${escapeText(name)}</dt><dd>${escapeText(value)}</dd>`).join("")}</dl>`;
}
