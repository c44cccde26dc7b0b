// Manual pages in roff, from the program's own help about options, tools and settings.

import { type Command, Help, type Option } from "commander";

/** Escapes text for roff: no escapes, no requests, and hyphens that readers can copy. */
const escaped = (text: string): string =>
  text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^([.'])/gm, "\\&$1");

const entry = (term: string, text: string): string => `.TP\n.B ${escaped(term)}\n${escaped(text)}\n`;

const head = (name: string, section: number, version: string, about: string): string =>
  `.TH ${name.toUpperCase()} ${section} "" "runnerbean ${version}"\n.SH NAME\n${escaped(name)} \\- ${escaped(about)}\n`;

/** Options in the form of the help: " -p, --port <port> TCP port …". */
function optionsIn(help: string): string {
  const lines = [...help.matchAll(/^ {1,5}(-[^\n]*?>?)(?: {2,}|(?<=[>\]]) )(\S.*)$/gm)];
  return lines.map(([, term, text]) => entry(term!, text!)).join("");
}

/** The options that all tools share which ask a server. Their own pages only name them. */
const COMMON = ["--url", "--port", "--token", "--ca", "--timeout", "--json"];
const isCommon = (tool: Command): boolean =>
  tool.options.filter(({ long }) => COMMON.includes(`${long}`)).length > 2;

/** Returns the entry of a tool, and of those within it. */
const entriesOf = (tool: Command, path: string): string => {
  const name = `${path} ${tool.name()}`;
  if (tool.commands.length > 0) return tool.commands.map((child) => entriesOf(child, name)).join("");
  const own = tool.options.filter(({ long }) => !isCommon(tool) || !COMMON.includes(`${long}`));
  const options = own.map(optionEntry).join("");
  const synopsis = `${name} ${tool.usage().replace("[options] ", "").replace("[options]", "")}`.trim();
  return entry(synopsis, tool.description()) + (options === "" ? "" : `.RS\n${options}.RE\n`);
};

/** With its words and its default, as in the help. */
const optionEntry = (option: Option): string => entry(option.flags, new Help().optionDescription(option));

const asksServer = (tool: Command): boolean => isCommon(tool) || tool.commands.some(asksServer);

function toolPage(tool: Command, version: string): string {
  const name = `runnerbean-${tool.name()}`;
  const common = asksServer(tool)
    ? `.SH COMMON OPTIONS\n${escaped(`${COMMON.join(", ")}: see`)}\n.BR runnerbean (1).\n`
    : "";
  return (
    head(name, 1, version, tool.description().split(/[;.]/)[0]!) +
    `.SH COMMANDS\n${entriesOf(tool, "runnerbean")}${common}.SH SEE ALSO\n.BR runnerbean (1)\n`
  );
}

/** Options by their first tool, which stand for those of all. */
function commonOptions(tools: Command): string {
  const all = tools.commands.flatMap((tool) => [tool, ...tool.commands]).filter(isCommon);
  return COMMON.map((flag) => {
    const option = all.flatMap(({ options }) => options).find(({ long }) => long === flag);
    return option === undefined ? "" : optionEntry(option);
  }).join("");
}

interface Described {
  readonly version: string;
  /** Output of `--help`. */
  readonly help: string;
  readonly tools: Command;
  /** Output of `config example`. */
  readonly example: string;
}

/** Returns the pages by the names of their files. */
export function manPages({ version, help, tools, example }: Described): Map<string, string> {
  const server =
    head("runnerbean", 1, version, "work queue that speaks the beanstalkd protocol") +
    `.SH SYNOPSIS\n.B runnerbean\n.RI [ OPTIONS ]\n.br\n.B runnerbean\n.I TOOL\n.RI [ ARGUMENTS ]\n` +
    `.SH DESCRIPTION\n${escaped(
      "Without a tool, starts a server for the commands of beanstalkd and for its own extensions. With a log (-b), acknowledged jobs survive a crash.",
    )}\n.SH OPTIONS\n${optionsIn(help)}` +
    `.SH TOOLS\nThese don't start a server. Each has a page of its own, such as\n.BR runnerbean\\-put (1).\n${tools.commands
      .map((tool) => entry(`runnerbean ${tool.name()}`, tool.description()))
      .join("")}` +
    `.SH OPTIONS OF TOOLS THAT ASK A SERVER\n${commonOptions(tools)}` +
    `.SH FILES\n${entry("/etc/runnerbean/runnerbean.toml", "settings of the service")}${entry("/var/lib/runnerbean", "its log")}` +
    `.SH SEE ALSO\n.BR runnerbean.toml (5),\nhttps://github.com/runnerbean/runnerbean/tree/main/docs\n`;
  const settings =
    head("runnerbean.toml", 5, version, "settings of runnerbean") +
    `.SH DESCRIPTION\nA file in TOML format, named by the option\n.BR \\-\\-config .\nThese are all keys:\n.PP\n.nf\n${escaped(example)}.fi\n` +
    `.SH SEE ALSO\n.BR runnerbean (1)\n`;
  return new Map([
    ["man1/runnerbean.1", server],
    ...tools.commands.map((tool) => [`man1/runnerbean-${tool.name()}.1`, toolPage(tool, version)] as const),
    ["man5/runnerbean.toml.5", settings],
  ]);
}
