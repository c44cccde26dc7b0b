// `settings`: lists, shows and changes settings of tubes, over HTTP.

import { type Command, InvalidArgumentError } from "commander";
import { SETTING_ROWS } from "../../protocol/option-rows.ts";
import { SETTINGS, type Setting } from "../../schema/setting.ts";
import { type Check, tube } from "../argument.ts";
import { isListOf, isNumber, isObject, isText, resultOf } from "../http-session.ts";
import { ExitCode, print, printOne, printRows } from "../output.ts";
import { type CommonOptions, newCommand, newGroup, withHttp } from "../run.ts";
import type { Target } from "../target.ts";

/** Maximum of patterns in one response. */
const PAGE = 1000;

type Values = Readonly<Record<string, string | number>>;
interface One {
  readonly pattern: string;
  readonly settings: Values;
  readonly tubes: number;
}
interface Page {
  readonly items: readonly One[];
  readonly cursor: string | null;
}
type InEffect = Readonly<Record<string, { readonly value: string | number; readonly from: string }>>;

const BY_WORD: ReadonlyMap<string, Setting> = new Map(SETTINGS.map((setting) => [setting.word, setting]));
/** The words of set-tube, by name in JSON. */
const WORDS: ReadonlyMap<string, string> = new Map(SETTINGS.map(({ name, word }) => [name, word]));
/** How each is written: "max-jobs=<n>". */
const USAGE: ReadonlyMap<string, string> = new Map(
  SETTING_ROWS.map(({ name, usage }) => [name, `${name}=${usage}`]),
);

const ONE = { pattern: isText, settings: isObject, tubes: isNumber };

export function settingsCommand(): Command {
  const description = "list, show and change limits, retries and times to live of tubes (over HTTP)";
  return newGroup("settings", description, [list(), show(), set(), remove()]);
}

const pattern: Check = (text) => {
  if (text === "*") return text;
  tube(text.replace(/\*$/, ""));
  return text;
};

/** A pattern may be ".", which a path can't contain. */
const pathOf = (pattern: string): string => `/v1/settings/-?${new URLSearchParams({ pattern })}`;

function list(): Command {
  return newCommand("list", "list the settings of all tubes and patterns, by name").action(
    (options: CommonOptions) =>
      withHttp(options, async (target) => {
        const items = await all(target);
        if (options.json === true) for (const item of items) print(JSON.stringify(item));
        else
          printRows(
            items.map(({ pattern, settings }) => ({ pattern, settings: textOf(settings) })),
            ["pattern", "settings"],
            options,
          );
        if (items.length === 0) process.exitCode = ExitCode.Nothing;
      }),
  );
}

async function all(target: Target): Promise<readonly One[]> {
  const items: One[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query = new URLSearchParams({ limit: `${PAGE}`, ...(cursor === "" ? {} : { cursor }) });
    const isOne = (value: unknown): boolean => isObject(value) && isObject(value["settings"]);
    const found = await resultOf(target, `/v1/settings?${query}`, {
      items: isListOf(isOne),
      cursor: (value) => value === null || isText(value),
    });
    const page = found as Readonly<Record<keyof Page, unknown>> as Page;
    items.push(...page.items);
    cursor = page.cursor;
  }
  return items;
}

/** In the form of set-tube: "max-attempts=5 backoff=10". */
const textOf = (settings: Values): string =>
  Object.entries(settings)
    .map(([field, value]) => `${WORDS.get(field) ?? field}=${value}`)
    .join(" ");

function show(): Command {
  return newCommand(
    "show <pattern>",
    "show the settings of a tube or pattern, and how many tubes it matches",
    {
      pattern,
    },
  )
    .option("--in-effect", "of a tube: all settings that apply to it, and where each comes from")
    .action((pattern: string, options: CommonOptions & { inEffect?: true }) =>
      withHttp(options, (target) =>
        options.inEffect === true
          ? showInEffect(target, pattern, options)
          : showOne(target, pattern, options),
      ),
    );
}

async function showOne(target: Target, pattern: string, options: CommonOptions): Promise<void> {
  const one = await resultOf(target, pathOf(pattern), ONE);
  printSettings(one as Readonly<Record<keyof One, unknown>> as One, options);
  if (Object.keys(one["settings"] as Values).length === 0) process.exitCode = ExitCode.Nothing;
}

async function showInEffect(target: Target, tube: string, options: CommonOptions): Promise<void> {
  const path = `/v1/tubes/-?${new URLSearchParams({ tube, missing: "zero" })}`;
  const found = await resultOf(target, path, { name: isText, settings: isObject });
  const rows = Object.entries(found["settings"] as InEffect).map(([field, { value, from }]) => ({
    setting: WORDS.get(field) ?? field,
    value,
    from,
  }));
  printRows(rows, ["setting", "value", "from"], options);
  if (rows.length === 0) process.exitCode = ExitCode.Nothing;
}

function printSettings({ pattern, settings, tubes }: One, options: CommonOptions): void {
  const named = Object.entries(settings).map(([field, value]) => [WORDS.get(field) ?? field, value]);
  if (options.json === true) print(JSON.stringify({ pattern, settings, tubes }));
  else printOne({ pattern, ...Object.fromEntries(named), tubes }, options);
}

function set(): Command {
  const usage = Array.from(USAGE.values(), (each) => `  ${each}`).join("\n");
  return newCommand(
    "set <pattern> <settings...>",
    "change some settings of a tube, of tubes with a prefix (mail-*), or of all tubes (*)",
    {
      pattern,
      settings: setting,
    },
  )
    .addHelpText("after", `\nSettings; one without a value is removed:\n${usage}`)
    .action((pattern: string, settings: string[], options: CommonOptions) =>
      withHttp(options, async (target) => {
        const changes = Object.fromEntries(settings.map(changeOf));
        const one = await resultOf(target, pathOf(pattern), ONE, "PATCH", changes);
        printSettings(one as Readonly<Record<keyof One, unknown>> as One, options);
      }),
    );
}

const partsOf = (text: string): [name: string, value: string] => {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
};

const setting: Check = (text) => {
  const [word, value] = partsOf(text);
  const row = BY_WORD.get(word);
  if (!text.includes("=") || row === undefined)
    throw new InvalidArgumentError(
      `Allowed: name=value, where the name is ${[...BY_WORD.keys()].join(", ")}.`,
    );
  if (isNumeric(row) && !/^(?:\d{1,16}(?:\.\d{1,3})?)?$/.test(value))
    throw new InvalidArgumentError(`Allowed: ${USAGE.get(word)}, a number.`);
  return text;
};

const isNumeric = ({ unset }: Setting): boolean => typeof unset === "number";

function changeOf(text: string): [field: string, value: string | number | null] {
  const [word, value] = partsOf(text);
  const row = BY_WORD.get(word)!;
  return [row.name, value === "" ? null : isNumeric(row) ? Number(value) : value];
}

function remove(): Command {
  return newCommand("remove <pattern>", "remove all settings of a tube or pattern", { pattern }).action(
    (pattern: string, options: CommonOptions) =>
      withHttp(options, async (target) => {
        const done = await resultOf(target, pathOf(pattern), ONE, "DELETE");
        print(options.json === true ? JSON.stringify(done) : `removed ${pattern}`);
      }),
  );
}
