// `settings`: lists, shows and changes settings of tubes: over HTTP, or over the protocol where the
// server has no HTTP. The protocol shows only what is in force for an existing tube.

import { type Command, InvalidArgumentError } from "commander";
import { SETTING_ROWS } from "../../protocol/option-rows.ts";
import { SETTINGS, type Setting } from "../../schema/setting.ts";
import { type Check, tube, withoutUnits } from "../argument.ts";
import { isListOf, isNumber, isObject, isText, resultOf } from "../http-session.ts";
import { CommandFailed, ExitCode, print, printOne, printRows, tell } from "../output.ts";
import { type CommonOptions, newCommand, newGroup, withTarget, withWire } from "../run.ts";
import type { Target } from "../target.ts";
import type { WireSession } from "../wire-session.ts";

/** Maximum of patterns in one response. */
const PAGE = 1000;

type Values = Readonly<Record<string, string | number>>;
interface Listed {
  readonly pattern: string;
  readonly settings: Values;
}
interface One extends Listed {
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
  const description = "list, show and change limits, retries and times to live of tubes";
  return newGroup("settings", description, [list(), show(), set(), remove()]);
}

const pattern: Check = (text) => {
  if (text === "*") return text;
  tube(text.replace(/\*$/, ""));
  return text;
};

/**
 * Runs one of the actions: `overHttp` if the server has HTTP at the address, the default one if
 * none is given. A port is one of the protocol.
 */
async function withSettings(
  options: CommonOptions,
  overHttp: (target: Target) => Promise<void>,
  overWire: (session: WireSession) => Promise<void>,
): Promise<void> {
  const askWire = (): Promise<void> => withWire(options, overWire, "set-tube");
  if (options.port !== undefined) return await askWire();
  const isNamed =
    (options.url ?? (process.env["RUNNERBEAN_HTTP_URL"] || process.env["RUNNERBEAN_URL"])) !== undefined;
  let isWire = false;
  await withTarget(
    options,
    async (target) => {
      if (target.kind === "wire") isWire = true;
      else
        await overHttp(target).catch((error: Error) => {
          isWire = !isNamed && error instanceof CommandFailed && error.exitCode === ExitCode.NoConnection;
          if (!isWire) throw error;
        });
    },
    "http",
  );
  if (isWire) await askWire();
}

type Force = Readonly<{ setting: string; value: string | number; from: string }>;

/** Returns the settings in force for a tube. */
async function inForce(session: WireSession, tube: string): Promise<Force[]> {
  const report = (await session.report(`inspect-tube ${tube}`)) ?? {};
  return [...BY_WORD.keys()].flatMap((word) => {
    const { [word]: value, [`${word}-from`]: from } = report;
    return value === undefined || from === undefined ? [] : [{ setting: word, value, from: `${from}` }];
  });
}

/** Sends changes, in the form of the arguments. */
async function setOverWire(session: WireSession, pattern: string, changes: readonly string[]): Promise<void> {
  await session.ask(`set-tube ${pattern} ${changes.join(" ")}`, "SET");
}

/** A pattern may be ".", which a path can't contain. */
const pathOf = (pattern: string): string => `/v1/settings/-?${new URLSearchParams({ pattern })}`;

function list(): Command {
  return newCommand("list", "list the settings of all tubes and patterns, by name").action(
    (options: CommonOptions) =>
      withSettings(
        options,
        async (target) => printList(await all(target), options),
        async (session) => {
          tell("runnerbean: without HTTP, this lists only settings in force for existing tubes");
          printList(await allInForce(session), options);
        },
      ),
  );
}

function printList(items: readonly Listed[], options: CommonOptions): void {
  if (options.json === true) for (const item of items) print(JSON.stringify(item));
  else
    printRows(
      items.map(({ pattern, settings }) => ({ pattern, settings: textOf(settings) })),
      ["pattern", "settings"],
      options,
    );
  if (items.length === 0) process.exitCode = ExitCode.Nothing;
}

/** Returns the settings that are in force for a tube, by pattern. */
async function allInForce(session: WireSession): Promise<readonly Listed[]> {
  const found = new Map<string, Record<string, string | number>>();
  for (const tube of await session.tubeNames())
    for (const { setting, value, from } of await inForce(session, tube))
      found.getOrInsertComputed(from, () => ({}))[BY_WORD.get(setting)!.name] = value;
  const patterns = [...found].sort(([a], [b]) => (a < b ? -1 : 1));
  return patterns.map(([pattern, settings]) => ({ pattern, settings }));
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
      withSettings(
        options,
        (target) =>
          options.inEffect === true
            ? showInEffect(target, pattern, options)
            : showOne(target, pattern, options),
        async (session) => {
          if (pattern.endsWith("*")) throw new CommandFailed(ONLY_HTTP, ExitCode.BadArguments);
          const all = await inForce(session, pattern);
          if (options.inEffect === true) printInEffect(all, options);
          else printOwn(all, pattern, options);
        },
      ),
    );
}

const ONLY_HTTP =
  "the protocol shows the settings of a tube, but not those of a pattern: name a tube, or start the server with --http";

/** Prints the tube's own settings. */
function printOwn(all: readonly Force[], pattern: string, options: CommonOptions): void {
  const own = all.filter(({ from }) => from === pattern);
  const named = Object.fromEntries(own.map(({ setting, value }) => [setting, value]));
  if (options.json === true)
    print(
      JSON.stringify({
        pattern,
        settings: Object.fromEntries(own.map(({ setting, value }) => [BY_WORD.get(setting)!.name, value])),
      }),
    );
  else printOne({ pattern, ...named }, options);
  if (own.length === 0) process.exitCode = ExitCode.Nothing;
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
  printInEffect(rows, options);
}

function printInEffect(rows: readonly Force[], options: CommonOptions): void {
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
      withSettings(
        options,
        async (target) => {
          const changes = Object.fromEntries(settings.map(changeOf));
          const one = await resultOf(target, pathOf(pattern), ONE, "PATCH", changes);
          printSettings(one as Readonly<Record<keyof One, unknown>> as One, options);
        },
        async (session) => {
          await setOverWire(session, pattern, settings);
          print(
            options.json === true ? JSON.stringify({ pattern }) : `set ${settings.join(" ")} for ${pattern}`,
          );
        },
      ),
    );
}

const partsOf = (text: string): [name: string, value: string] => {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
};

/** Returns `name=value` in the form of set-tube: seconds, bytes and numbers without units. */
const setting: Check = (text) => {
  const [word, given] = partsOf(text);
  const row = BY_WORD.get(word);
  if (!text.includes("=") || row === undefined)
    throw new InvalidArgumentError(
      `Allowed: name=value, where the name is ${[...BY_WORD.keys()].join(", ")}.`,
    );
  const value = withoutUnits(row.kind, given);
  if (isNumeric(row) && !/^(?:\d{1,16}(?:\.\d{1,3})?)?$/.test(value))
    throw new InvalidArgumentError(`Allowed: ${USAGE.get(word)}, ${VALUES[row.kind] ?? "a number"}.`);
  return `${word}=${value}`;
};

const VALUES: Readonly<Record<string, string>> = {
  duration: "a time such as 30, 0.5, 250ms or 5m",
  bytes: "a size such as 4096, 64K or 8G",
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
      withSettings(
        options,
        async (target) => {
          const done = await resultOf(target, pathOf(pattern), ONE, "DELETE");
          print(options.json === true ? JSON.stringify(done) : `removed ${pattern}`);
        },
        async (session) => {
          await setOverWire(
            session,
            pattern,
            [...BY_WORD.keys()].map((word) => `${word}=`),
          );
          print(options.json === true ? JSON.stringify({ pattern }) : `removed ${pattern}`);
        },
      ),
  );
}
