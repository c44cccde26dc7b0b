// Diagnostics: pino on stderr, as lines for people on a terminal and as JSON otherwise.

import { type DestinationStream, type Logger, pino } from "pino";
import { LineSink, type WriteSome } from "./line-sink.ts";

/** From what on the log says something. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface Diagnostics {
  readonly log: Logger;
  /** Where its lines go. */
  readonly lines: LineSink;
}

/**
 * A logger whose lines are written before it returns if the reader takes them, and that never waits for it.
 */
export async function createLog(
  isTerminal: boolean,
  level: LogLevel,
  writeSome: WriteSome,
): Promise<Diagnostics> {
  const format = isTerminal ? await prettyLine() : (line: string): string => line;
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

/** As pino-pretty's stream, which would write by itself. */
async function prettyLine(): Promise<(line: string) => string> {
  const { prettyFactory } = await import("pino-pretty");
  const pretty = prettyFactory({ ignore: "name", translateTime: "SYS:HH:MM:ss" });
  return (line) => pretty(line) ?? "";
}
