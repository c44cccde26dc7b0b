// Contenders of the bench: our server first, then those that it is compared with.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BenchOptions } from "./options.ts";
import { type CommandExtras, type Contender, commandContender, targetContender } from "./server/contender.ts";

/** Starts our server from its sources. */
export const OUR_COMMAND: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL("../src/server/main.ts", import.meta.url)),
];

/** Throws if two have the same name. */
export function contenders(options: BenchOptions): Contender[] {
  const others = options.target === undefined ? theirs(options) : options.target.map(target);
  const all = options.ours === false ? others : [...ourContenders(options), ...others];
  const names = all.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new Error(`Two servers are called ${twice}: give one a name of its own, --theirs name=command`);
  return all;
}

/** Our server, once for each --transport. */
function ourContenders(options: BenchOptions): Contender[] {
  const [first, ...more] = options.transport ?? [];
  if (first === undefined) return [ourContender(options)];
  const withTransport = (kind: string): Contender => ourContender(options, ["--transport", kind]);
  return [
    withTransport(first),
    ...more.map((kind) => ({ ...withTransport(kind), name: `runnerbean ${kind}` })),
  ];
}

/** Our server as it starts by itself, then with each of the flags. */
export function variantContenders(
  options: BenchOptions,
  variants: readonly (readonly string[])[],
): Contender[] {
  if (options.shards !== undefined || options.acceptors !== undefined)
    throw new Error(
      "--shards and --acceptors can't be given: this compares numbers of them with the default.",
    );
  const named = (name: string, flags: readonly string[]): Contender => ({
    ...ourContender(options, flags),
    name,
  });
  return [named("default", []), ...variants.map((flags) => named(flags.join(" "), flags))];
}

/** Our server with flags of the command line and `more`. Throws if it is left out. */
export function ourContender(
  options: BenchOptions,
  more: readonly string[] = [],
  extras: CommandExtras = {},
): Contender {
  const command = options.ours;
  if (command === false) throw new Error("This measures our own server: it can't be left out (--no-ours).");
  const words = command === "" ? OUR_COMMAND : command.split(" ");
  const flags: string[] = [];
  if (options.shards !== undefined) flags.push("--shards", `${options.shards}`);
  if (options.acceptors !== undefined) flags.push("--acceptors", `${options.acceptors}`);
  const transport = options.transport?.[0];
  if (transport !== undefined && !more.includes("--transport")) flags.push("--transport", transport);
  flags.push(...more);
  const name = command === "" ? "runnerbean" : `${words[0]!.split("/").at(-1)} (ours)`;
  const shown = [...(command === "" ? ["node", "src/server/main.ts"] : words), ...flags];
  return commandContender(name, [...words, ...flags], { shown, isOurs: true, ...extras });
}

function theirs(options: BenchOptions): Contender[] {
  return (options.theirs || []).flatMap((text) => {
    const [, given, command] = /^(?:([^\s=/]+)=)?(.+)$/.exec(text) ?? [];
    const words = command?.split(" ") ?? [];
    const [program] = words;
    if (program === undefined) throw new Error("--theirs: expected a command");
    if (!isOnPath(program)) {
      const isFile = program.includes("/");
      console.error(
        isFile
          ? `There is no program ${program}: it is left out.`
          : `There is no ${program} on the PATH: it is left out (--theirs, --target to compare).`,
      );
      return [];
    }
    const name = given ?? program.split("/").at(-1)!;
    return [commandContender(name, words)];
  });
}

function isOnPath(program: string): boolean {
  const { PATH = "" } = process.env;
  const candidates = program.includes("/")
    ? [program]
    : PATH.split(delimiter).map((directory) => join(directory, program));
  return candidates.some((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function target(text: string): Contender {
  const colon = text.lastIndexOf(":");
  const port = Number(text.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port)) throw new Error(`--target ${text}: expected host:port`);
  return targetContender(text, { host: text.slice(0, colon), port });
}
