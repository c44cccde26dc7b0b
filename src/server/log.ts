// Diagnostics: pino on stderr, as lines for people on a terminal and as JSON otherwise.

import { type Logger, pino } from "pino";

/** A logger that writes before it returns, so that nothing is lost when the process ends next. */
export async function createLog(isTerminal: boolean): Promise<Logger> {
  const base = { name: "runnerbean" };
  if (!isTerminal) {
    return pino({ base, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 2, sync: true }));
  }
  const { default: pretty } = await import("pino-pretty");
  return pino(
    { base },
    pretty({ destination: 2, sync: true, ignore: "name", translateTime: "SYS:HH:MM:ss" }),
  );
}
