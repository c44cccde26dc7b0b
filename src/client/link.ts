// A connection that comes back: dials with back-off, finds out what the server can do, and lets commands wait meanwhile.

import type { Socket } from "node:net";
import { reportLines } from "./dictionary.ts";
import { Closed, ConnectionLost, ProtocolError, ReplyError } from "./errors.ts";
import type { Reply } from "./reply-reader.ts";
import { Wire } from "./wire.ts";

/** What happens to connections, for a log. */
export type ConnectionEvent =
  | { readonly state: "connected" }
  | { readonly state: "lost"; readonly error: Error; readonly retryMs: number };

export interface LinkOptions {
  /** Sent first on each connection, where the server asks for one. */
  readonly token?: string;
  /** Wait between attempts to connect again, from [50, to 5000]: doubles, minus up to a half by chance. */
  readonly retryMs?: readonly [first: number, last: number];
  /** How long a command waits for a connection before it fails; 30,000 if not given. */
  readonly offlineMs?: number;
  /** How long to connect, to end a wait and to close may take; 10,000 if not given. */
  readonly connectMs?: number;
  /** Told of each connection that is made or lost. */
  readonly onConnection?: (event: ConnectionEvent) => void;
}

/** What is held on a connection, and is lost with it. */
export interface Held {
  touch(): Promise<void>;
  /** It is held no more, and nothing was lost. */
  end(): void;
  lose(why: string): void;
}

interface Waiter {
  readonly start: (wire: Wire) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/** There was no connection for too long. */
class Offline extends ConnectionLost {}

/** So many commands may wait for a connection. */
const WAITING_MAX = 10_000;
/** The longest that a timer takes. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

export class Link {
  readonly held = new Map<number, Held>();
  /** A reserve is under way, which may wait. */
  isReserving = false;
  wire: Wire | undefined;
  /** The first attempt to connect: what it failed with, or undefined. */
  readonly first: Promise<Error | undefined>;
  readonly offlineMs: number;
  readonly #dial: () => Promise<Socket>;
  readonly #options: LinkOptions;
  readonly #waiters = new Set<Waiter>();
  #attempts = 0;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(dial: () => Promise<Socket>, options: LinkOptions) {
    this.#dial = dial;
    this.#options = options;
    this.offlineMs = options.offlineMs ?? 30_000;
    this.first = this.#connect();
  }

  /** Whether the server is known to have this extension. */
  has(extension: string): boolean {
    return this.wire?.extensions.has(extension) ?? false;
  }

  /** A command; `again`: it may be sent twice. */
  ask(command: string, accept: string, again = false): Promise<Reply> {
    return this.run((wire) => wire.request(command, accept), again);
  }

  /** A command that beanstalkd does not have. */
  askExtended(command: string, accept: string, again = false): Promise<Reply> {
    return this.run((wire) => wire.extended(command, accept), again);
  }

  /**
   * Does something on the connection, when there is one. What had not been sent when the connection broke is done
   * on the next one; with `again` also what had been sent.
   */
  async run<T>(action: (wire: Wire) => Promise<T>, again = false, limitMs = this.offlineMs): Promise<T> {
    for (;;) {
      try {
        return await this.#once(action, limitMs);
      } catch (error) {
        if (!(error instanceof ConnectionLost) || error instanceof Offline) throw error;
        if (this.#isClosed) throw new Closed("closed", { cause: error });
        if (error.sent && !again) throw error;
      }
    }
  }

  /** After what is under way or, in the middle of a wait that nothing else ends, at once. What is held goes back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    for (const { reject } of this.#takeWaiters()) reject(new Closed("closed"));
    if (this.isReserving && !this.has("reserve-batch")) this.wire?.drop();
    else await this.wire?.end();
  }

  /** Those that wait begin in their order, in one turn, so that nobody is quicker. */
  #once<T>(action: (wire: Wire) => Promise<T>, limitMs: number): Promise<T> {
    if (this.wire !== undefined) return action(this.wire);
    return new Promise((resolve, reject) => {
      if (this.#isClosed) return reject(new Closed("closed"));
      if (this.#waiters.size >= WAITING_MAX)
        return reject(new Offline(`${WAITING_MAX} commands wait for a connection`, false));
      const tooLate = (): void => {
        this.#waiters.delete(waiter);
        reject(new Offline(`no connection within ${limitMs} ms`, false));
      };
      const timer = limitMs < TIMER_MS_MAX ? setTimeout(tooLate, limitMs) : undefined;
      const waiter: Waiter = { start: (wire) => resolve(action(wire)), reject, timer };
      this.#waiters.add(waiter);
    });
  }

  async #connect(): Promise<Error | undefined> {
    let wire: Wire | undefined;
    try {
      const onLost = (error: ConnectionLost) => this.wire === wire && this.#onLost(error);
      wire = new Wire(await this.#dial(), onLost, this.#options.connectMs);
      await wire.inTime(this.#greet(wire));
      if (wire.isLost || this.#isClosed) throw new ConnectionLost("the connection was closed", false);
    } catch (error) {
      wire?.drop();
      const { cause } = error as Error;
      return this.#again(cause instanceof ProtocolError ? cause : (error as Error));
    }
    this.wire = wire;
    this.#attempts = 0;
    this.#options.onConnection?.({ state: "connected" });
    for (const { start } of this.#takeWaiters()) start(wire);
    return undefined;
  }

  /** `extensions` once a connection; plain beanstalkd does not know the command. */
  async #greet(wire: Wire): Promise<void> {
    const { token } = this.#options;
    if (token !== undefined) await wire.request(`auth ${token}`, "AUTHENTICATED UNKNOWN_COMMAND");
    const { body } = await wire.request("extensions", "OK UNKNOWN_COMMAND");
    wire.extensions = new Set(reportLines(body).map((line) => line.split(":", 1)[0]!));
  }

  #onLost(error: ConnectionLost): void {
    this.wire = undefined;
    const lost = [...this.held.values()];
    this.held.clear();
    for (const job of lost) job.lose(`its connection broke: ${error.message}`);
    this.#again(error);
  }

  #again(error: Error): Error {
    if (this.#isClosed) return error;
    const [first, last] = this.#options.retryMs ?? [50, 5000];
    const retryMs = Math.min(last, first * 2 ** this.#attempts++) * (1 - Math.random() / 2);
    this.#retry = setTimeout(() => void this.#connect(), retryMs);
    this.#options.onConnection?.({ state: "lost", error, retryMs });
    // To wait helps nobody if the server has said no, or is none.
    if (error instanceof ReplyError || error instanceof ProtocolError)
      for (const { reject } of this.#takeWaiters()) reject(error);
    return error;
  }

  #takeWaiters(): Waiter[] {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const { timer } of waiters) clearTimeout(timer);
    return waiters;
  }
}
