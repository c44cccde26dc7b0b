// Diagnostic log: pino on stderr, as readable lines on a terminal and as JSON otherwise.

import { type DestinationStream, type Logger, pino } from "pino";
import { printableLines } from "../../base/printable.ts";
import { LineSink, type WriteSome } from "./line-sink.ts";

/** Levels, from the most verbose. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface Diagnostics {
  readonly log: Logger;
  /** Destination of the lines. */
  readonly lines: LineSink;
}

/**
 * Returns a logger. It writes each line before it returns if the reader keeps up, and never blocks.
 */
export async function createLog(
  isTerminal: boolean,
  level: LogLevel,
  writeSome: WriteSome,
): Promise<Diagnostics> {
  const format = isTerminal ? await prettyLine() : printableLines;
  const logTo = (destination: DestinationStream): Logger => {
    const base = { name: "runnerbean" };
    if (isTerminal) return pino({ base, level }, destination);
    return pino({ base, level, timestamp: pino.stdTimeFunctions.isoTime }, destination);
  };
  const lines = new LineSink(writeSome, (count) => {
    let line = "";
    logTo({ write: (text) => (line = text) }).error(droppedWords(count, "of diagnostics"));
    return format(line);
  });
  return { log: logTo({ write: (line) => lines.write(format(line)) }), lines };
}

/** "3 lines of diagnostics could not be written and were dropped". */
export function droppedWords(count: number, what: string): string {
  const [lines, were] = count === 1 ? ["line", "was"] : ["lines", "were"];
  return `${count} ${lines} ${what} could not be written and ${were} dropped`;
}

/** Formats like pino-pretty's stream, which would write by itself. */
async function prettyLine(): Promise<(line: string) => string> {
  const { prettyFactory } = await import("pino-pretty");
  const pretty = prettyFactory({ ignore: "name", translateTime: "SYS:HH:MM:ss" });
  // Escaped before the formatter adds its colours. A line break is indented, so that no text from
  // outside looks like a line of the log.
  const escaped = (_key: string, value: unknown): unknown =>
    typeof value === "string" ? printableLines(value).replaceAll("\n", "\n    ") : value;
  return (line) => pretty(JSON.parse(line, escaped)) ?? "";
}
