// `top`: shows the server and its tubes every second over the protocol, so it works with any
// beanstalkd.

import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { type Command, InvalidArgumentError } from "commander";
import { matchesGlob } from "../../base/text.ts";
import { interval } from "../argument.ts";
import { print, type Row, rowsText } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import type { Report, WireSession } from "../wire-session.ts";
import { sorted, sortOption, TUBE_COLUMNS, tubeRow } from "./show.ts";

// Keys of `top`: s sorts by the next column, S by the previous one, / filters by name, q quits.

const ESCAPE = "\u001b";
export const CTRL_C = "\u0003";
const BACKSPACES = ["\u007f", "\b"];
/** Also matches other keys that send several characters. */
const ARROW = new RegExp(`${ESCAPE}[[O][0-9;]*[A-Za-z~]`, "g");
const ENTERS = ["\r", "\n"];

export class TopKeys {
  sort: string;
  /** A glob or a part of a name; empty for all tubes. */
  filter: string;
  /** True while the user types the filter. */
  isTyping = false;
  isOver = false;
  readonly #columns: readonly string[];

  constructor(columns: readonly string[], sort: string, filter: string) {
    this.#columns = columns;
    this.sort = sort;
    this.filter = filter;
  }

  get glob(): string {
    return /[*?]/.test(this.filter) ? this.filter : `*${this.filter}*`;
  }

  /** Handles terminal input: one key or several at once. Arrow keys and the like do nothing. */
  press(keys: string): void {
    for (const key of keys.replaceAll(ARROW, "")) {
      if (key === CTRL_C) this.isOver = true;
      else if (this.isTyping) this.#type(key);
      else this.#command(key);
    }
  }

  #command(key: string): void {
    if (key === "q" || key === ESCAPE) this.isOver = true;
    else if (key === "/") this.#begin();
    else if (key === "s") this.#sortBy(1);
    else if (key === "S") this.#sortBy(-1);
  }

  #begin(): void {
    this.filter = "";
    this.isTyping = true;
  }

  #type(key: string): void {
    if (ENTERS.includes(key)) this.isTyping = false;
    else if (key === ESCAPE) {
      this.filter = "";
      this.isTyping = false;
    } else if (BACKSPACES.includes(key)) this.filter = this.filter.slice(0, -1);
    else if (/^[!-~]$/.test(key)) this.filter += key;
  }

  #sortBy(step: number): void {
    const { length } = this.#columns;
    this.sort = this.#columns[(this.#columns.indexOf(this.sort) + step + length) % length]!;
  }
}

interface TopOptions extends CommonOptions {
  readonly n?: number;
  readonly sort: string;
  readonly match: string;
  readonly every: string;
}

/** Counters with a second column for their rate. */
const RATES = ["puts", "deletes"] as const;
const TOP_COLUMNS = TUBE_COLUMNS.flatMap((column) =>
  RATES.some((rate) => rate === column) ? [column, `${column}/s`] : [column],
);
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const ROWS_DEFAULT = 40;

export function topCommand(): Command {
  return newCommand(
    "top",
    "show the busiest tubes and keep refreshing; s changes the sort column, / filters, q quits",
  )
    .option("-n <times>", "number of refreshes (default: no limit)", positive)
    .addOption(sortOption(TOP_COLUMNS, "ready"))
    .option("--match <glob>", "only tubes whose names match the pattern, or contain the text", "")
    .option("--every <time>", "interval", interval, "1")
    .action((options: TopOptions) =>
      withWire(options, async (session) => {
        const keys = new TopKeys(TOP_COLUMNS, options.sort, options.match);
        let [view, before]: (View | undefined)[] = [];
        const terminal = listen(keys, () => view !== undefined && show(view, before, keys, options));
        for (let time = 0; time < (options.n ?? Number.POSITIVE_INFINITY) && !keys.isOver; time++) {
          if (time > 0)
            await sleep(Number(options.every) * 1000, undefined, { signal: terminal.signal }).catch(() => {});
          if (keys.isOver) break;
          before = view;
          view = await look(session);
          show(view, before, keys, options);
        }
        process.stdin.unref?.();
      }),
    );
}

function positive(text: string): number {
  if (Number(text) > 0) return Number(text);
  throw new InvalidArgumentError("It must be a number above 0.");
}

interface View {
  readonly atMs: number;
  readonly stats: Report;
  readonly rows: readonly Row[];
}

async function look(session: WireSession): Promise<View> {
  const stats = await session.stats();
  const rows = (await session.tubes(await session.tubeNames())).map(tubeRow);
  return { atMs: performance.now(), stats, rows };
}

function show(view: View, before: View | undefined, keys: TopKeys, options: TopOptions): void {
  const matching = withRates(view, before).filter((row) => matchesGlob(keys.glob, `${row["tube"]}`));
  const rows = sorted(matching, keys.sort);
  if (options.json === true) {
    print(JSON.stringify({ stats: view.stats, tubes: rows }));
    return;
  }
  const { stats } = view;
  const isTerminal = process.stdout.isTTY === true;
  const most = isTerminal ? Math.max(3, (process.stdout.rows || ROWS_DEFAULT) - 4) : rows.length;
  const head = [
    `ready ${stats["current-jobs-ready"]}  reserved ${stats["current-jobs-reserved"]}`,
    `delayed ${stats["current-jobs-delayed"]}  buried ${stats["current-jobs-buried"]}`,
    `connections ${stats["current-connections"]}  waiting ${stats["current-waiting"]}  tubes ${rows.length}`,
  ].join("  ");
  const filter = keys.isTyping || keys.filter !== "" ? `/${keys.filter}${keys.isTyping ? "_" : ""}` : "";
  const order = isTerminal ? `by ${keys.sort}  ` : "";
  if (isTerminal) process.stdout.write(HOME_AND_CLEAR);
  print(`${head}\n${order}${filter}`);
  const shown = rows.slice(0, most);
  // A terminal without a size says 0.
  const width = process.stdout.columns || Number.POSITIVE_INFINITY;
  if (isTerminal) process.stdout.write(fittedText(shown, keys.sort, width));
  else process.stdout.write(rowsText(shown, TOP_COLUMNS, false));
}

/** What a narrow terminal does without, the first one first. */
const LESS_NEEDED = [
  "users",
  "pause",
  "urgent",
  "disconnects",
  "watchers",
  "puts",
  "deletes",
  "puts/s",
  "deletes/s",
  "waiting",
];
const NAME_LENGTH_MIN = 20;

/** Returns a table that is no wider than the terminal, as far as columns can be left out. */
export function fittedText(rows: readonly Row[], sort: string, width: number): string {
  const widthOf = (text: string): number =>
    Math.max(
      ...stripVTControlCharacters(text)
        .split("\n")
        .map(({ length }) => length),
    );
  let columns: readonly string[] = TOP_COLUMNS;
  let text = rowsText(rows, columns, true);
  for (const column of LESS_NEEDED) {
    if (widthOf(text) <= width) return text;
    if (column !== sort) columns = columns.filter((each) => each !== column);
    text = rowsText(rows, columns, true);
  }
  const names = rows.map((row) => `${row["tube"]}`);
  const longest = Math.max(...names.map(({ length }) => length));
  const room = Math.max(NAME_LENGTH_MIN, longest - (widthOf(text) - width));
  if (longest <= room) return text;
  const cut = (name: string): string => (name.length <= room ? name : `${name.slice(0, room - 1)}…`);
  return rowsText(
    rows.map((row, index) => ({ ...row, tube: cut(names[index]!) })),
    columns,
    true,
  );
}

function withRates(view: View, before: View | undefined): Row[] {
  const earlier = new Map(before?.rows.map((row) => [row["tube"], row]));
  return view.rows.map((row) => {
    const old = earlier.get(row["tube"]);
    const rates = RATES.map((rate) => {
      const seconds = (view.atMs - (before?.atMs ?? view.atMs)) / 1000;
      const more = Number(row[rate]) - Number(old?.[rate] ?? row[rate]);
      // A tube that was deleted and created again counts from 0.
      return [`${rate}/s`, seconds > 0 && more >= 0 ? Math.round(more / seconds) : null];
    });
    return { ...row, ...Object.fromEntries(rates) };
  });
}

/**
 * Returns a controller that a key or Ctrl-C aborts. `onPress` is called after every other key.
 */
function listen(keys: TopKeys, onPress: () => void): AbortController {
  const end = new AbortController();
  const press = (pressed: string): void => {
    keys.press(pressed);
    if (keys.isOver) end.abort();
    else onPress();
  };
  process.once("SIGINT", () => press(CTRL_C));
  const { stdin } = process;
  if (!stdin.isTTY) return end;
  stdin.setRawMode(true);
  stdin.unref();
  stdin.on("data", (bytes) => press(bytes.toString()));
  process.on("exit", () => stdin.setRawMode(false));
  return end;
}
