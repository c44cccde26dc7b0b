// Diagnostics: pino on stderr, as lines for people on a terminal and as JSON otherwise.

import { type Logger, pino } from "pino";

/** From what on the log says something. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A logger that writes before it returns, so that nothing is lost when the process ends next. */
export async function createLog(isTerminal: boolean, level: LogLevel): Promise<Logger> {
  const base = { name: "runnerbean" };
  if (!isTerminal) {
    return pino(
      { base, level, timestamp: pino.stdTimeFunctions.isoTime },
      pino.destination({ fd: 2, sync: true }),
    );
  }
  const { default: pretty } = await import("pino-pretty");
  return pino(
    { base, level },
    pretty({ destination: 2, sync: true, ignore: "name", translateTime: "SYS:HH:MM:ss" }),
  );
}
