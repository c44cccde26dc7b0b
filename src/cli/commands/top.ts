// `top`: the server and its tubes, each second, over the wire: of any beanstalkd.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { print, type Row, rowsText } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import type { Report, WireSession } from "../wire-session.ts";
import { sorted, sortOption, TUBE_COLUMNS, tubeRow } from "./show.ts";

interface TopOptions extends CommonOptions {
  readonly n?: string;
  readonly sort: string;
  readonly every: string;
}

/** Counters of which a second column tells the rate. */
const RATES = ["puts", "deletes"] as const;
const TOP_COLUMNS = TUBE_COLUMNS.flatMap((column) =>
  RATES.some((rate) => rate === column) ? [column, `${column}/s`] : [column],
);
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const ROWS_DEFAULT = 40;

export function topCommand(): Command {
  return newCommand("top", "the busiest tubes, again and again; q or Ctrl-C ends it")
    .option("-n <times>", "so often, then end")
    .addOption(sortOption(TOP_COLUMNS, "ready"))
    .option("--every <seconds>", "how often", "1")
    .action((options: TopOptions) =>
      withWire(options, async (session) => {
        const times = options.n === undefined ? Number.POSITIVE_INFINITY : Number(options.n);
        const stop = listenForEnd();
        let before: View | undefined;
        for (let time = 0; time < times && !stop.signal.aborted; time++) {
          if (time > 0)
            await sleep(Number(options.every) * 1000, undefined, { signal: stop.signal }).catch(() => {});
          if (stop.signal.aborted) break;
          const view = await look(session);
          show(view, before, options);
          before = view;
        }
        process.stdin.unref?.();
      }),
    );
}

interface View {
  readonly atMs: number;
  readonly stats: Report;
  readonly rows: readonly Row[];
}

async function look(session: WireSession): Promise<View> {
  const stats = (await session.report("stats"))!;
  const rows = (await session.tubes(await session.tubeNames())).map(tubeRow);
  return { atMs: performance.now(), stats, rows };
}

function show(view: View, before: View | undefined, options: TopOptions): void {
  const rows = sorted(withRates(view, before), options.sort);
  if (options.json === true) {
    print(JSON.stringify({ stats: view.stats, tubes: rows }));
    return;
  }
  const { stats } = view;
  const isTerminal = process.stdout.isTTY === true;
  const most = isTerminal ? Math.max(3, (process.stdout.rows ?? ROWS_DEFAULT) - 4) : rows.length;
  const head = [
    `ready ${stats["current-jobs-ready"]}  reserved ${stats["current-jobs-reserved"]}`,
    `delayed ${stats["current-jobs-delayed"]}  buried ${stats["current-jobs-buried"]}`,
    `connections ${stats["current-connections"]}  waiting ${stats["current-waiting"]}  tubes ${rows.length}`,
  ].join("  ");
  process.stdout.write(`${isTerminal ? HOME_AND_CLEAR : ""}${head}\n\n`);
  process.stdout.write(rowsText(rows.slice(0, most), TOP_COLUMNS, isTerminal));
}

function withRates(view: View, before: View | undefined): Row[] {
  const earlier = new Map(before?.rows.map((row) => [row["tube"], row]));
  return view.rows.map((row) => {
    const old = earlier.get(row["tube"]);
    const rates = RATES.map((rate) => {
      const seconds = (view.atMs - (before?.atMs ?? view.atMs)) / 1000;
      const more = Number(row[rate]) - Number(old?.[rate] ?? row[rate]);
      // A tube that went and came again counts from 0.
      return [`${rate}/s`, seconds > 0 && more >= 0 ? Math.round(more / seconds) : null];
    });
    return { ...row, ...Object.fromEntries(rates) };
  });
}

/** Aborted by q, Escape and Ctrl-C. */
function listenForEnd(): AbortController {
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort());
  const { stdin } = process;
  if (!stdin.isTTY) return stop;
  stdin.setRawMode(true);
  stdin.unref();
  stdin.on("data", (key) => {
    if (["q", "\u001b", "\u0003"].includes(key.toString())) stop.abort();
  });
  process.on("exit", () => stdin.setRawMode(false));
  return stop;
}
