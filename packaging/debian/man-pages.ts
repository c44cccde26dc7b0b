// Manual pages in roff, from the program's own help about options, tools and settings.

import type { Command } from "commander";

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

const toolsOf = (command: Command, path: string): string =>
  command.commands
    .map((tool) => {
      const name = `${path} ${tool.name()}`;
      if (tool.commands.length > 0) return toolsOf(tool, name);
      const options = tool.options.map(({ flags, description }) => entry(flags, description));
      const synopsis = `${name} ${tool.usage().replace("[options] ", "").replace("[options]", "")}`.trim();
      return `${entry(synopsis, tool.description())}.RS\n${options.join("")}.RE\n`;
    })
    .join("");

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
    `.SH TOOLS\nThese don't start a server.\n${toolsOf(tools, "runnerbean")}` +
    `.SH FILES\n${entry("/etc/runnerbean/runnerbean.toml", "settings of the service")}${entry("/var/lib/runnerbean", "its log")}` +
    `.SH SEE ALSO\n.BR runnerbean.toml (5),\nhttps://github.com/runnerbean/runnerbean/tree/main/docs\n`;
  const settings =
    head("runnerbean.toml", 5, version, "settings of runnerbean") +
    `.SH DESCRIPTION\nA file in TOML format, named by the option\n.BR \\-\\-config .\nThese are all keys:\n.PP\n.nf\n${escaped(example)}.fi\n` +
    `.SH SEE ALSO\n.BR runnerbean (1)\n`;
  return new Map([
    ["man1/runnerbean.1", server],
    ["man5/runnerbean.toml.5", settings],
  ]);
}
