// Self-healing connection: dials with backoff, detects the server's extensions, and queues commands
// until it is connected.

import type { Socket } from "node:net";
import { hostname } from "node:os";
import { reportLines } from "./command-text.ts";
import { Closed, ConnectionLost, OtherServer, ProtocolError, ReplyError } from "./errors.ts";
import { isValidAt, type Reply, Wire } from "./wire.ts";

// The client's name on the server: the extension `name`.

const NAME_BYTES_MAX = 63;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a name can't have these
const BLANK_OR_CONTROL = /[\x00-\x20\x7f]/;

/**
 * Returns the name as the protocol's Latin-1: the given one, or host and process id; the label
 * follows after a slash. Throws TypeError for a name that the server would refuse.
 */
export function clientName(given: string | undefined, label?: string): string {
  const end = label === undefined ? "" : `/${label}`;
  const name = `${given ?? ownName(end)}${end}`;
  const bytes = Buffer.from(name);
  if (given === "" || label === "" || BLANK_OR_CONTROL.test(name) || bytes.length > NAME_BYTES_MAX)
    throw new TypeError(
      `${JSON.stringify(name)} is not a valid name: 1 to ${NAME_BYTES_MAX} bytes with the label, without blanks`,
    );
  return bytes.toString("latin1");
}

/** Returns the host, shortened so that the rest fits, and the process id. */
function ownName(end: string): string {
  const pid = `:${process.pid}`;
  const hostBytes = Math.max(1, NAME_BYTES_MAX - pid.length - Buffer.byteLength(end));
  return `${hostname()
    .replace(/[^!-~]/g, "_")
    .slice(0, hostBytes)}${pid}`;
}

// Whether a job id means the same job on two connections.
//
// A job id is only valid on the server that gave it, and on servers that continue its log. Behind
// the same address, a server without a log begins at 1 again, and a restored backup gives the ids
// after the backup a second time.

/**
 * Throws OtherServer if `id`, which the server of the connection `giver` gave, may mean something
 * else on the connection `wire`.
 */
export async function mustKnow(what: string, id: number, giver: Wire, wire: Wire): Promise<void> {
  const [given, known] = await Promise.all([giver.origins(), wire.origins()]);
  const [origin] = given.keys();
  // If the connection has broken meanwhile, the caller's command fails without being sent.
  if (wire.isLost || isValidAt(known, origin, id)) return;
  throw new OtherServer(
    `${what}: nothing was sent, because the server is another one now: it was replaced, restored from a backup, or restarted without its log`,
  );
}

/** Connection events, for a log. */
export type ConnectionEvent =
  | { readonly state: "connected" }
  | { readonly state: "lost"; readonly error: Error; readonly retryMs: number };

export interface LinkOptions {
  /** Sent first on each connection, for a server that requires it. */
  readonly token?: string;
  /**
   * The client's name in job failures and in lists of connections, if the server supports names: up
   * to 63 bytes without blanks; `host:pid` by default.
   */
  readonly name?: string;
  /**
   * Delay between attempts to reconnect, [50, 5000] by default. It doubles from the first to the
   * last, minus up to half at random.
   */
  readonly retryMs?: readonly [first: number, last: number];
  /**
   * Time that a command, and `connect`, waits for a connection before it fails; 30,000 by default.
   */
  readonly offlineMs?: number;
  /** Time limit for connecting, ending a wait and closing; 10,000 by default. */
  readonly connectMs?: number;
  /** Called whenever a connection is made or lost. */
  readonly onConnection?: (event: ConnectionEvent) => void;
}

/** Something held on a connection and lost with it. */
export interface Held {
  touch(): Promise<void>;
  /** Marks it as no longer held, without a loss. */
  end(): void;
  lose(why: string): void;
}

interface Waiter {
  readonly start: (wire: Wire) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/** There was no connection for too long: a ConnectionLost whose name says so. */
class Offline extends ConnectionLost {}

/** Maximum of commands that wait for a connection. */
const WAITING_MAX = 10_000;
/** Codes of TLS errors, such as an unknown certificate. */
const TLS_CODE = /^(?:ERR_TLS|ERR_SSL|CERT|DEPTH|SELF_SIGNED|UNABLE_TO)_/;

/** Whether waiting is pointless: the server refused, is not a beanstalkd or isn't trusted. */
function isFinal(error: Error): boolean {
  if (error instanceof ReplyError || error instanceof ProtocolError) return true;
  const code = error.cause instanceof Error && "code" in error.cause ? error.cause.code : "";
  return TLS_CODE.test(String(code));
}

/** Maximum delay of a timer. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

export class Link {
  readonly held = new Map<number, Held>();
  /** True while a reserve is pending, which may wait. */
  isReserving = false;
  wire: Wire | undefined;
  /** The current connection, or the one before. */
  #lastWire: Wire | undefined;
  readonly offlineMs: number;
  /** Result of the first attempt to connect: its error or undefined. */
  readonly #first: Promise<Error | undefined>;
  readonly #dial: () => Promise<Socket>;
  readonly #options: LinkOptions;
  readonly #name: string;
  /** Why there is no connection. */
  #lastError: Error | undefined;
  readonly #waiters = new Set<Waiter>();
  #attempts = 0;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `name` is in the protocol's Latin-1. */
  constructor(dial: () => Promise<Socket>, options: LinkOptions, name: string = clientName(options.name)) {
    this.#dial = dial;
    this.#options = options;
    this.#name = name;
    this.offlineMs = options.offlineMs ?? 30_000;
    this.#first = this.#connect();
  }

  /**
   * Waits for the first connection, for `offlineMs` but at least for one attempt. Throws at once if
   * waiting is pointless.
   */
  async begin(): Promise<void> {
    const endsAtMs = performance.now() + this.offlineMs;
    const error = await this.#first;
    if (error === undefined) return;
    const leftMs = endsAtMs - performance.now();
    if (isFinal(error) || leftMs <= 0) throw error;
    await this.run(async () => {}, true, leftMs);
  }

  /** Tells whether the server is known to have this extension. */
  has(extension: string): boolean {
    return this.wire?.extensions.has(extension) ?? false;
  }

  /** Sends a command. With `again`, it may be sent twice. */
  ask(command: string, accept: string, again = false): Promise<Reply> {
    return this.run((wire) => wire.request(command, accept), again);
  }

  /** Sends a command that beanstalkd doesn't have. */
  askExtended(command: string, accept: string, again = false): Promise<Reply> {
    return this.run((wire) => wire.extended(command, accept), again);
  }

  /**
   * The connection that an id without a known origin counts for: the current one. Without one, it
   * is the one before, if its server said who it is.
   */
  get giver(): Wire | undefined {
    return this.wire ?? (this.#lastWire?.isIdentified === true ? this.#lastWire : undefined);
  }

  /**
   * Runs an action about an id that the server of the connection `giver` gave. Throws OtherServer
   * if it may mean something else by now. Without a giver, the id counts for any server.
   */
  runAbout<T>(
    what: string,
    id: number,
    giver: Wire | undefined,
    action: (wire: Wire) => Promise<T>,
    again = false,
  ): Promise<T> {
    return this.run(async (wire) => {
      // Without an await on the same connection, so that commands keep their order.
      if (giver !== undefined && wire !== giver) await mustKnow(what, id, giver, wire);
      return action(wire);
    }, again);
  }

  /**
   * Sends the command for the page of a list after the id `after`, which the server of the
   * connection `giver` gave. Returns the connection of this page, too.
   */
  page(command: string, after: number, giver: Wire | undefined): Promise<{ body: Uint8Array; wire: Wire }> {
    const ask = async (wire: Wire): Promise<{ body: Uint8Array; wire: Wire }> => {
      void wire.origins();
      const { body } = await wire.extended(command, "OK");
      return { body: body!, wire };
    };
    return this.runAbout("the rest of the list", after, giver, ask, true);
  }

  /**
   * Runs an action on the connection, once there is one. If the connection breaks, it retries
   * actions that were not sent; with `again`, also those that were.
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

  /**
   * Closes the connection after the pending commands, or at once during a wait that nothing else
   * can end. Held jobs go back.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    for (const { reject } of this.#takeWaiters()) reject(new Closed("closed"));
    if (this.isReserving && !this.has("reserve-batch")) this.wire?.drop();
    else await this.wire?.end();
  }

  /** Waiting actions start in order and in one turn, so that none overtakes another. */
  #once<T>(action: (wire: Wire) => Promise<T>, limitMs: number): Promise<T> {
    if (this.wire !== undefined) return action(this.wire);
    return new Promise((resolve, reject) => {
      if (this.#isClosed) return reject(new Closed("closed"));
      if (this.#waiters.size >= WAITING_MAX)
        return reject(new Offline(`${WAITING_MAX} commands wait for a connection`, false));
      const tooLate = (): void => {
        this.#waiters.delete(waiter);
        const why = this.#lastError === undefined ? "" : `: ${this.#lastError.message}`;
        reject(new Offline(`no connection within ${Math.round(limitMs)} ms${why}`, false, this.#lastError));
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
    this.#lastWire = wire;
    this.#lastError = undefined;
    this.#attempts = 0;
    this.#options.onConnection?.({ state: "connected" });
    for (const { start } of this.#takeWaiters()) start(wire);
    return undefined;
  }

  /**
   * Asks for `extensions` once per connection, and sends its name. Plain beanstalkd has neither
   * command.
   */
  async #greet(wire: Wire): Promise<void> {
    const { token } = this.#options;
    if (token !== undefined) await wire.request(`auth ${token}`, "AUTHENTICATED UNKNOWN_COMMAND");
    const { body } = await wire.request("extensions", "OK UNKNOWN_COMMAND");
    wire.extensions = new Set(reportLines(body).map((line) => line.split(":", 1)[0]!));
    if (wire.extensions.has("name")) await wire.request(`name ${this.#name}`, "NAMED");
  }

  #onLost(error: ConnectionLost): void {
    this.wire = undefined;
    const lost = [...this.held.values()];
    this.held.clear();
    for (const job of lost) job.lose(`its connection broke: ${error.message}`);
    this.#again(error);
  }

  #again(error: Error): Error {
    this.#lastError = error;
    if (this.#isClosed) return error;
    const [first, last] = this.#options.retryMs ?? [50, 5000];
    const retryMs = Math.min(last, first * 2 ** this.#attempts++) * (1 - Math.random() / 2);
    this.#retry = setTimeout(() => void this.#connect(), retryMs);
    this.#options.onConnection?.({ state: "lost", error, retryMs });
    if (isFinal(error)) for (const { reject } of this.#takeWaiters()) reject(error);
    return error;
  }

  #takeWaiters(): Waiter[] {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const { timer } of waiters) clearTimeout(timer);
    return waiters;
  }
}
