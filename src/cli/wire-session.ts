// A connection to a server that speaks beanstalkd's protocol, ours or beanstalkd, for one command of an operator.

import { dialer } from "../client/dial.ts";
import { reportEntries, reportLines, unquoted } from "../client/dictionary.ts";
import { NotSupported, ProtocolError } from "../client/errors.ts";
import type { Reply } from "../client/reply-reader.ts";
import { Wire } from "../client/wire.ts";
import { CommandFailed, ExitCode } from "./exit-code.ts";
import type { Target } from "./target.ts";

const DIAL_MS = 5000;
/** How much longer than others a command may take that goes over many jobs before it is answered. */
export const BULK_MS = 600_000;
/** The longest that a timer takes. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Keys as the server writes them: "current-jobs-ready". */
export type Report = Readonly<Record<string, string | number>>;

export class WireSession {
  readonly #wire: Wire;
  readonly #limitMs: number;
  /** How long each of what is under way may take. */
  readonly #limits: number[] = [];

  private constructor(wire: Wire, limitMs: number) {
    this.#limitMs = limitMs;
    this.#wire = wire;
  }

  static async open({ address, token, ca, limitMs }: Target): Promise<WireSession> {
    const socket = await dialer(address, ca === undefined ? undefined : { ca }, DIAL_MS)();
    const wire = new Wire(socket, () => {}, limitMs);
    try {
      if (token !== undefined) await wire.inTime(wire.request(`auth ${token}`, "AUTHENTICATED"));
    } catch (error) {
      wire.drop();
      throw error instanceof NotSupported
        ? new CommandFailed("a token is not wanted at this address", ExitCode.Nothing)
        : error;
    }
    return new WireSession(wire, limitMs);
  }

  /** Rejects with ConnectionLost where nothing comes; `workMs` is what the command itself may take. */
  ask(command: string, accept: string, body?: Uint8Array, workMs = 0): Promise<Reply> {
    return this.#within(this.#limitMs + workMs, this.#wire.request(oneLine(command), accept, body));
  }

  /** A command that concerns the tube in use. */
  inTube(tube: string, command: string, accept: string, body?: Uint8Array): Promise<Reply> {
    return this.#within(this.#limitMs, this.#wire.inTube(oneLine(tube), oneLine(command), accept, body));
  }

  /** Ends the connection where it is silent for longer than all that is under way may take. */
  async #within(limitMs: number, reply: Promise<Reply>): Promise<Reply> {
    this.#limits.push(limitMs);
    this.#watch();
    try {
      return await reply;
    } finally {
      this.#limits.splice(this.#limits.indexOf(limitMs), 1);
      this.#watch();
    }
  }

  #watch(): void {
    const longestMs = Math.max(0, ...this.#limits);
    // 0: not at all.
    this.#wire.limitSilence(longestMs > TIMER_MS_MAX ? 0 : longestMs);
  }

  /** After what is under way. */
  async end(): Promise<void> {
    await this.#wire.end();
  }

  /** A report, or undefined for NOT_FOUND. */
  async report(command: string): Promise<Report | undefined> {
    const reply = await this.ask(command, "OK NOT_FOUND");
    if (reply.words[0] === "NOT_FOUND") return undefined;
    return reportOf(reply.body);
  }

  /** A report that every beanstalkd has. */
  async stats(): Promise<Report> {
    const { body } = await this.ask("stats", "OK");
    return reportOf(body);
  }

  async tubeNames(): Promise<string[]> {
    const { body } = await this.ask("list-tubes", "OK");
    return reportLines(body).map((line) => unquoted(line.replace(/^- /, "")));
  }

  /** All tubes that are there when their turn comes. */
  async tubes(names: readonly string[]): Promise<Report[]> {
    const reports = await Promise.all(names.map((name) => this.report(`stats-tube ${name}`)));
    return reports.filter((report) => report !== undefined);
  }

  /** Fails where the server is beanstalkd, or is told to be no more than that. */
  async needs(extension: string): Promise<void> {
    const reply = await this.ask("extensions", "OK UNKNOWN_COMMAND");
    if (reply.words[0] === "OK" && extension in reportOf(reply.body)) return;
    throw new CommandFailed(
      `the server has no ${extension}: this works with runnerbean only`,
      ExitCode.Nothing,
    );
  }
}

/** The number that a reply has as its second word; what else answers may have none. */
export function countOf({ line, words: [, count = ""] }: Reply): number {
  if (/^\d{1,16}$/.test(count)) return Number(count);
  throw new ProtocolError(`${JSON.stringify(line.slice(0, 60))} has no number`);
}

/** Arguments may come from anywhere, and none of them is to become a command of its own. */
function oneLine(text: string): string {
  if (!/[\r\n]/.test(text)) return text;
  throw new CommandFailed(`${JSON.stringify(text)} has more than one line`, ExitCode.BadArguments);
}

const reportOf = (body: Uint8Array | undefined): Report => Object.fromEntries(reportEntries(body));
