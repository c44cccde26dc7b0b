// Non-blocking sink for lines to stdout or stderr. Its reader may be slow, stuck or gone, and the
// server never waits for it.
//
// A blocking write to a full pipe would hold up the main thread, and with it all signals and exits.
// So the descriptor is non-blocking. Output that it can't take at once is queued up to a bound;
// lines beyond that are dropped. A later line reports how many.

import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { isatty } from "node:tty";
import { type DestinationStream, type Logger, pino } from "pino";
import { printableLines } from "../../base/text.ts";

const LINES_MAX = 1000;
const BYTES_MAX = 1 << 20;
/** Interval of retries, ms. */
const RETRY_MS = 50;

/**
 * Writes some of the bytes and returns how many. Throws a system error, EAGAIN if there is no room.
 */
type WriteSome = (bytes: Uint8Array) => number;

export class LineSink {
  readonly #writeSome: WriteSome;
  readonly #droppedLine: (count: number) => string;
  /** Whole lines, except for the first one, which may be partly written. */
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #dropped = 0;
  /** True if the last write was a part of a line that could not be finished. */
  #torn = false;
  #timer: NodeJS.Timeout | undefined;
  #onEmpty: (() => void)[] = [];

  /** `droppedLine` returns the line that reports dropped lines. */
  constructor(writeSome: WriteSome, droppedLine: (count: number) => string) {
    this.#writeSome = writeSome;
    this.#droppedLine = droppedLine;
  }

  /**
   * Writes a line, which must end in a newline, at once, later or never. Does not block or throw.
   */
  write(line: string): void {
    if (this.#queue.length > 0) {
      this.#enqueue(Buffer.from(line));
      return;
    }
    this.#tellDropped();
    if (this.#queue.length > 0) this.#enqueue(Buffer.from(line));
    else this.#put(Buffer.from(line), 1);
  }

  /** Resolves when the queue is empty, or after `waitMs`. */
  drained(waitMs: number): Promise<void> {
    if (this.#queue.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const late = setTimeout(resolve, waitMs);
      this.#onEmpty.push(() => {
        clearTimeout(late);
        resolve();
      });
    });
  }

  #enqueue(line: Uint8Array): void {
    if (this.#queue.length >= LINES_MAX || this.#queuedBytes + line.length > BYTES_MAX) {
      this.#dropped++;
      return;
    }
    this.#queue.push(line);
    this.#queuedBytes += line.length;
    this.#timer ??= setTimeout(this.#retry, RETRY_MS);
  }

  #tellDropped(): void {
    const count = this.#dropped;
    if (count === 0) return;
    this.#dropped = 0;
    this.#put(Buffer.from(this.#droppedLine(count)), count);
  }

  /** Writes a line or queues the rest of it. `count` lines are lost with it if the write fails. */
  #put(line: Uint8Array, count: number): void {
    let rest = this.#torn ? Buffer.concat([Buffer.from("\n"), line]) : line;
    try {
      while (rest.length > 0) {
        rest = rest.subarray(this.#writeSome(rest));
        this.#torn = rest.length > 0;
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") {
        this.#dropped += count;
        return;
      }
      // The rest is queued, so the line is not torn.
      this.#torn = false;
      this.#queue.unshift(rest);
      this.#queuedBytes += rest.length;
      this.#timer ??= setTimeout(this.#retry, RETRY_MS);
    }
  }

  readonly #retry = (): void => {
    this.#timer = undefined;
    while (this.#queue.length > 0) {
      const line = this.#queue.shift()!;
      this.#queuedBytes -= line.length;
      this.#put(line, 1);
      // The rest is at the head of the queue again.
      if (this.#timer !== undefined) return;
    }
    this.#tellDropped();
    if (this.#queue.length > 0) return;
    const waiting = this.#onEmpty;
    this.#onEmpty = [];
    for (const resolve of waiting) resolve();
  };
}

/** Returns a writer to a standard descriptor that never blocks. */
export function nonBlockingWriter(descriptor: number): WriteSome {
  const { own, keep } = withoutWaiting(descriptor);
  return (bytes) => {
    // Keeps a reference: a collected socket would close the descriptor.
    void keep;
    return writeSync(own, bytes);
  };
}

/**
 * Reopens a pipe or terminal, because O_NONBLOCK on the inherited descriptor would affect all
 * processes that share it, and cause errors that they don't expect. A socket, or a pipe of another
 * user, can't be reopened; there, libuv sets the flag on the inherited descriptor. Files never
 * block.
 */
function withoutWaiting(descriptor: number): { own: number; keep?: Socket } {
  try {
    if (fstatSync(descriptor).isFile()) return { own: descriptor };
    try {
      const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
      return { own: openSync(`/proc/self/fd/${descriptor}`, O_WRONLY | O_NONBLOCK | O_NOCTTY) };
    } catch {
      return { own: descriptor, keep: new Socket({ fd: descriptor, readable: false, writable: true }) };
    }
  } catch {
    // The descriptor is closed or of an unknown kind; every write will report that.
    return { own: descriptor };
  }
}

// Diagnostic log on stderr: readable lines on a terminal, lines with a level for systemd's journal,
// and JSON otherwise. Fatal errors are text everywhere unless the operator asks for JSON.

/** Levels, from the most verbose. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Values of --log-format. */
export const LOG_FORMATS = ["auto", "text", "json"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

/** How lines are written; mixed: as JSON, but fatal errors as text. */
type LogForm = "terminal" | "text" | "journal" | "json" | "mixed";

export function logFormOf(format: LogFormat, descriptor: number): LogForm {
  if (format === "json") return "json";
  if (isatty(descriptor)) return "terminal";
  if (isJournal(descriptor)) return "journal";
  return format === "text" ? "text" : "mixed";
}

/** systemd names the stream that it gave to the service; stderr may have been redirected since. */
function isJournal(descriptor: number): boolean {
  try {
    const { dev, ino } = fstatSync(descriptor);
    return process.env["JOURNAL_STREAM"] === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** Levels of syslog, which the journal takes from the beginning of a line, by those of pino. */
const PRIORITIES: Readonly<Record<number, number>> = { 10: 7, 20: 7, 30: 6, 40: 4, 50: 3, 60: 3 };
const FATAL = 60;

const withPriority = (text: string, level: number): string =>
  text.trimEnd().replaceAll(/^/gm, `<${PRIORITIES[level] ?? 6}>`);

/** Returns the line of an error that ends the program, wherever it comes from. */
export function fatalLine(message: string, form: LogForm): string {
  if (form === "json") {
    const line = { level: FATAL, time: new Date().toISOString(), name: "runnerbean", msg: message };
    return `${printableLines(JSON.stringify(line))}\n`;
  }
  const text = printableLines(`runnerbean: ${message}`);
  return `${form === "journal" ? withPriority(text, FATAL) : text}\n`;
}

const FATAL_START = `{"level":${FATAL},`;

/** Returns a function that formats pino's lines. */
async function formatterOf(form: LogForm): Promise<(line: string) => string> {
  if (form === "json") return printableLines;
  const format = form === "mixed" ? printableLines : await prettyLine(form);
  return (line) => {
    if (!line.startsWith(FATAL_START)) return format(line);
    const { msg, err } = JSON.parse(line) as {
      readonly msg: string;
      readonly err?: { readonly stack: string };
    };
    return fatalLine(err === undefined ? msg : `${msg}\n${err.stack}`, form);
  };
}

export interface Diagnostics {
  readonly log: Logger;
  /** Destination of the lines. */
  readonly lines: LineSink;
}

/**
 * Returns a logger. It writes each line before it returns if the reader keeps up, and never blocks.
 */
export async function createLog(form: LogForm, level: LogLevel, writeSome: WriteSome): Promise<Diagnostics> {
  const format = await formatterOf(form);
  const isJson = form === "json" || form === "mixed";
  const logTo = (destination: DestinationStream): Logger => {
    const base = { name: "runnerbean" };
    if (!isJson) return pino({ base, level }, destination);
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
async function prettyLine(form: "terminal" | "text" | "journal"): Promise<(line: string) => string> {
  const { prettyFactory } = await import("pino-pretty");
  const isJournal = form === "journal";
  const pretty = prettyFactory({
    // The journal has them already.
    ignore: isJournal ? "name,time,level" : "name",
    translateTime: "SYS:HH:MM:ss",
    ...(form === "terminal" ? {} : { colorize: false }),
  });
  // Escaped before the formatter adds its colours. A line break is indented, so that no text from
  // outside looks like a line of the log.
  const escaped = (_key: string, value: unknown): unknown =>
    typeof value === "string" ? printableLines(value).replaceAll("\n", "\n    ") : value;
  return (line) => {
    const fields = JSON.parse(line, escaped) as { readonly level: number };
    const text = pretty(fields) ?? "";
    return isJournal ? `${withPriority(text, fields.level)}\n` : text;
  };
}
