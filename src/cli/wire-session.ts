// Connection of an operator command to a server that speaks beanstalkd's protocol: runnerbean or
// beanstalkd.

import { isTubeName, notSo, reportEntries, reportLines, unquoted } from "../client/command-text.ts";
import { ConnectionLost, NotSupported, ProtocolError } from "../client/errors.ts";
import { mustKnow, TIMER_MS_MAX } from "../client/link.ts";
import { dialer, type Origins, type Reply, Wire } from "../client/wire.ts";
import { CommandFailed, ExitCode } from "./output.ts";
import { certificateHint, type Target } from "./target.ts";

const DIAL_MS = 5000;
/** Additional time for a command that processes many jobs before its reply. */
export const BULK_MS = 600_000;

/** Keys as the server writes them: "current-jobs-ready". */
export type Report = Readonly<Record<string, string | number>>;

export interface Reserved {
  readonly id: number;
  readonly body: Buffer;
}

/** A wait that ends this much early was ended by the server. */
const EARLY_MS = 500;

export class WireSession {
  readonly #wire: Wire;
  readonly #limitMs: number;
  /** Time limits of pending commands, with how many commands have each. */
  readonly #limits = new Map<number, number>();
  #inspects: Promise<boolean> | undefined;

  private constructor(wire: Wire, limitMs: number) {
    this.#limitMs = limitMs;
    this.#wire = wire;
  }

  static async open({ address, token, isTokenUsual, ca, limitMs }: Target): Promise<WireSession> {
    const dial = dialer(address, ca === undefined ? undefined : { ca }, DIAL_MS);
    const socket = await dial().catch((error: Error) => {
      const { code = "" } = (error.cause ?? {}) as NodeJS.ErrnoException;
      // ENOENT: no file of that name, for a unix socket.
      const certificate = certificateHint(code);
      if (certificate !== "") throw new CommandFailed(error.message + certificate, ExitCode.NoConnection);
      if (code !== "ECONNREFUSED" && code !== "ENOENT") throw error;
      const hint =
        "no server listens there; start one with runnerbean, or name another with --url or RUNNERBEAN_URL";
      throw new CommandFailed(`${error.message}: ${hint}`, ExitCode.NoConnection);
    });
    const wire = new Wire(socket, () => {}, limitMs);
    try {
      if (token !== undefined) await wire.inTime(wire.request(`auth ${token}`, "AUTHENTICATED"));
    } catch (error) {
      const isUnknown = error instanceof NotSupported && error.reply !== "TLS_REQUIRED";
      if (isUnknown && isTokenUsual === true) return new WireSession(wire, limitMs);
      wire.drop();
      throw isUnknown
        ? new CommandFailed("this address takes no token: leave out --token", ExitCode.Nothing)
        : error;
    }
    return new WireSession(wire, limitMs);
  }

  /**
   * Sends a command. Rejects with ConnectionLost if the server stays silent; `workMs` is time that
   * the command itself may take.
   */
  ask(command: string, accept: string, body?: Uint8Array, workMs = 0): Promise<Reply> {
    return this.#within(this.#limitMs + workMs, this.#wire.request(oneLine(command), accept, body));
  }

  /** Sends a command that depends on the used tube. */
  inTube(tube: string, command: string, accept: string, body?: Uint8Array): Promise<Reply> {
    return this.#within(this.#limitMs, this.#wire.inTube(oneLine(tube), oneLine(command), accept, body));
  }

  /** Limits silence to the longest time that any pending command may take. */
  async #within<T>(limitMs: number, reply: Promise<T>): Promise<T> {
    this.#limits.set(limitMs, (this.#limits.get(limitMs) ?? 0) + 1);
    this.#watch();
    try {
      return await reply;
    } finally {
      const left = this.#limits.get(limitMs)! - 1;
      if (left === 0) this.#limits.delete(limitMs);
      else this.#limits.set(limitMs, left);
      this.#watch();
    }
  }

  #watch(): void {
    const longestMs = Math.max(0, ...this.#limits.keys());
    // 0 disables the limit.
    this.#wire.limitSilence(longestMs > TIMER_MS_MAX ? 0 : longestMs);
  }

  /** Watches these tubes and no others. */
  async watchOnly(tubes: readonly string[]): Promise<void> {
    for (const tube of tubes) await this.ask(`watch ${tube}`, "WATCHING");
    if (!tubes.includes("default")) await this.ask("ignore default", "WATCHING");
  }

  /**
   * Waits for a job, forever by default; returns undefined if none arrives in time. Throws
   * ConnectionLost if the server ends the wait early, as it does when it stops.
   */
  async reserve(waitSeconds: number | undefined): Promise<Reserved | undefined> {
    const command = waitSeconds === undefined ? "reserve" : `reserve-with-timeout ${waitSeconds}`;
    // The reply may take as long as the wait, which may have no limit.
    const waitMs = waitSeconds === undefined ? Number.POSITIVE_INFINITY : waitSeconds * 1000;
    const sentAtMs = performance.now();
    const { words, jobs } = await this.ask(command, "RESERVED TIMED_OUT DEADLINE_SOON", undefined, waitMs);
    const [job] = jobs;
    if (words[0] === "TIMED_OUT" && performance.now() - sentAtMs < waitMs - EARLY_MS)
      throw new ConnectionLost("the server is stopping", true);
    return job === undefined ? undefined : { id: job.id, body: Buffer.from(job.bytes) };
  }

  /**
   * Deletes a job that this session reserved, or an earlier one, `giver`. Throws OtherServer if the
   * id may mean another job here. A job that another worker holds is left alone.
   */
  async delete(id: number, giver: WireSession = this): Promise<void> {
    if (giver !== this) await this.#within(this.#limitMs, mustKnow(`job ${id}`, id, giver.#wire, this.#wire));
    await this.ask(`delete ${id}`, "DELETED NOT_FOUND");
  }

  /** Returns the servers whose job ids are valid here; `has` must have been called before. */
  origins(): Promise<Origins> {
    return this.#wire.origins();
  }

  /** Drops the connection, with everything that it waits for. */
  drop(): void {
    this.#wire.drop();
  }

  /** Closes the connection after the pending commands. */
  async end(): Promise<void> {
    await this.#wire.end();
  }

  /** Returns a report; undefined for NOT_FOUND. */
  async report(command: string): Promise<Report | undefined> {
    const reply = await this.ask(command, "OK NOT_FOUND");
    if (reply.words[0] === "NOT_FOUND") return undefined;
    return reportOf(reply.body);
  }

  /** Returns `stats`, which every beanstalkd has. */
  async stats(): Promise<Report> {
    const { body } = await this.ask("stats", "OK");
    return reportOf(body);
  }

  /** Throws ProtocolError for a name that no tube of beanstalkd can have, as it may not be one. */
  async tubeNames(): Promise<string[]> {
    const { body } = await this.ask("list-tubes", "OK");
    const names = reportLines(body).map((line) => unquoted(line.replace(/^- /, "")));
    const strange = names.find((name) => !isTubeName(name));
    if (strange !== undefined) throw notSo(strange, "the name of a tube");
    return names;
  }

  /**
   * Returns the reports of those tubes that still exist, with what `inspect-tube` adds if the
   * server has it.
   */
  async tubes(names: readonly string[]): Promise<Report[]> {
    this.#inspects ??= this.has("inspect-tube");
    const inspects = await this.#inspects;
    const reports = await Promise.all(
      names.map(async (name) => {
        const [known, more] = await Promise.all([
          this.report(`stats-tube ${name}`),
          inspects ? this.report(`inspect-tube ${name}`) : undefined,
        ]);
        return known === undefined ? undefined : { ...known, ...more };
      }),
    );
    return reports.filter((report) => report !== undefined);
  }

  /** Returns whether the server has the extension; beanstalkd has none. */
  async has(extension: string): Promise<boolean> {
    const { body } = await this.ask("extensions", "OK UNKNOWN_COMMAND");
    this.#wire.extensions = new Set(Object.keys(reportOf(body)));
    return this.#wire.extensions.has(extension);
  }

  /** Throws if the server lacks the extension, as beanstalkd does; `what` names the feature. */
  async needs(extension: string, what = extension): Promise<void> {
    if (await this.has(extension)) return;
    throw new CommandFailed(`the server has no ${what}: this works with runnerbean only`, ExitCode.Nothing);
  }
}

/** Returns the number in the second word of a reply. A foreign server's reply may have none. */
export function countOf({ line, words: [, count = ""] }: Reply): number {
  if (/^\d{1,16}$/.test(count)) return Number(count);
  throw new ProtocolError(`${JSON.stringify(line.slice(0, 60))} has no number`);
}

/** Refuses line breaks, so that no argument can become a command of its own. */
function oneLine(text: string): string {
  if (!/[\r\n]/.test(text)) return text;
  throw new CommandFailed(`${JSON.stringify(text)} has more than one line`, ExitCode.BadArguments);
}

const reportOf = (body: Uint8Array | undefined): Report => Object.fromEntries(reportEntries(body));
