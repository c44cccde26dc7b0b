// One connection: sends commands, several per write, and matches the replies in order.

import type { Socket } from "node:net";
import { reportLines } from "./dictionary.ts";
import { ConnectionLost, errorOf, NotSupported, ProtocolError } from "./errors.ts";
import { type Reply, ReplyReader } from "./reply-reader.ts";

interface UnderWay {
  readonly command: string;
  readonly accept: readonly string[];
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** Order in which jobs of the watched tubes are chosen. */
export type ReserveOrder = "strict" | "weighted" | "weighted-time";

/** The tubes that a connection watches, with weights, 1 by default. */
export interface Watched {
  readonly tubes: readonly string[];
  readonly weights: ReadonlyMap<string, number>;
  readonly order: ReserveOrder;
}

/** The tubes that a new connection watches. */
export const WATCHED_AT_FIRST: Watched = { tubes: ["default"], weights: new Map(), order: "strict" };

/**
 * The servers whose job ids are valid on a connection, with the number below which they are; the
 * server of the connection first. Empty if it doesn't say who it is.
 */
export type Origins = ReadonlyMap<string, number>;

const ALL_IDS = Number.POSITIVE_INFINITY;

const CR_LF = Buffer.from("\r\n");

export class Wire {
  /** Extensions of the server beyond beanstalkd's commands. */
  extensions: ReadonlySet<string> = new Set();
  watched: Watched = WATCHED_AT_FIRST;
  #origins: Promise<Origins> | undefined;
  #isIdentified = false;
  readonly #socket: Socket;
  readonly #limitMs: number;
  readonly #onLost: (error: ConnectionLost) => void;
  #underWay: UnderWay[] = [];
  #lost: ConnectionLost | undefined;
  #isEnding = false;
  #isCorked = false;
  #used = "default";
  #turn: Promise<unknown> = Promise.resolve();
  #turns = 0;

  constructor(socket: Socket, onLost: (error: ConnectionLost) => void, limitMs = 10_000) {
    this.#socket = socket;
    this.#limitMs = limitMs;
    this.#onLost = onLost;
    const reader = new ReplyReader((reply) => this.#onReply(reply));
    socket.on("error", (error) => this.drop(error));
    socket.on("timeout", () => this.drop(new Error(`no answer within ${socket.timeout} ms`)));
    socket.on("close", () => this.drop());
    // No more data can arrive, but unread output would delay the close.
    socket.on("end", () => this.drop());
    socket.on("data", (chunk: Buffer) => {
      try {
        if (this.#lost === undefined) reader.push(chunk);
      } catch (error) {
        this.drop(error);
      }
    });
  }

  /** A server that accepts `meta` also accepts names of clients. */
  get hasMeta(): boolean {
    return this.extensions.has("name");
  }

  /**
   * Returns the servers whose job ids are valid here. Asks at the first call: before the connection
   * gets an id, because it may break at once.
   */
  origins(): Promise<Origins> {
    this.#origins ??= this.#askOrigins();
    return this.#origins;
  }

  /** Whether the server has said who it is. */
  get isIdentified(): boolean {
    return this.#isIdentified;
  }

  /** Without the extension, `id` in `stats` identifies a process. */
  async #askOrigins(): Promise<Origins> {
    const has = this.extensions.has("origins");
    try {
      const { body } = await this.request(has ? "origins" : "stats", "OK");
      const pairs = reportLines(body).map((line) => line.split(": ") as [string, string]);
      this.#isIdentified = true;
      if (has) return new Map(pairs.map(([id, below]) => [id, below === "all" ? ALL_IDS : Number(below)]));
      return new Map(pairs.filter(([key]) => key === "id").map(([, id]) => [id, ALL_IDS]));
    } catch {
      // The connection broke, or the server doesn't say.
      return new Map();
    }
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /**
   * Sends a command. Resolves to a reply whose first word is in `accept` (separated by blanks);
   * rejects with the matching error class otherwise. The body is copied.
   */
  request(command: string, accept: string, body?: Uint8Array): Promise<Reply> {
    // The socket has failed, but hasn't reported it yet. Drop it, so that a retry finds the next
    // one.
    if (!this.#isEnding && !this.#socket.writable) this.drop();
    if (this.#lost !== undefined || this.#isEnding)
      return Promise.reject(new ConnectionLost(`${shown(command)}: not sent, the connection is gone`, false));
    // A single write sends all commands of one turn.
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#socket.cork();
      process.nextTick(() => {
        this.#isCorked = false;
        this.#socket.uncork();
      });
    }
    const line = Buffer.from(`${command}\r\n`, "latin1");
    this.#socket.write(body === undefined ? line : Buffer.concat([line, body, CR_LF]));
    return new Promise((resolve, reject) =>
      this.#underWay.push({ command, accept: accept.split(" "), resolve, reject }),
    );
  }

  /**
   * Sends a command of an extension. If the server lacks it, rejects with NotSupported and sends
   * nothing.
   */
  async extended(command: string, accept: string, body?: Uint8Array): Promise<Reply> {
    const verb = command.split(" ", 1)[0]!;
    if (this.extensions.has(verb)) return this.request(command, accept, body);
    throw new NotSupported(`the server has no ${verb}`, "UNKNOWN_COMMAND");
  }

  /**
   * Sends a command that depends on the used tube. To switch tubes, it first waits for USING: after
   * a failed `use`, a put would go to the wrong tube.
   */
  async inTube(tube: string, command: string, accept: string, body?: Uint8Array): Promise<Reply> {
    if (this.#turns === 0 && this.#used === tube) return this.request(command, accept, body);
    const before = this.#turn;
    const sent = (async () => {
      await before;
      if (this.#used !== tube) await this.request(`use ${tube}`, "USING").catch(notSent);
      this.#used = tube;
      return [this.request(command, accept, body)] as const;
    })();
    this.#turns++;
    const next = (): number => this.#turns--;
    this.#turn = sent.then(next, next);
    return (await sent)[0];
  }

  /** Closes the connection after the pending commands, and resolves when it is closed. */
  async end(): Promise<void> {
    if (this.#lost !== undefined) return;
    this.#isEnding = true;
    const closed = new Promise((resolve) => this.#socket.once("close", resolve));
    this.#socket.end("quit\r\n");
    await this.inTime(closed);
  }

  /** Drops the connection if this reply, which the server should send at once, takes too long. */
  async inTime<T>(work: Promise<T>): Promise<T> {
    const tooLate = (): void => this.drop(new Error(`no answer within ${this.#limitMs} ms`));
    const timer = setTimeout(tooLate, this.#limitMs);
    return await work.finally(() => clearTimeout(timer));
  }

  /** Drops the connection after this time without data; 0 for never. */
  limitSilence(limitMs: number): void {
    this.#socket.setTimeout(limitMs);
  }

  /** Drops the connection. */
  drop(cause?: unknown): void {
    if (this.#lost !== undefined) return;
    const why = cause instanceof Error ? cause.message : "the connection was closed";
    this.#lost = new ConnectionLost(why, false, cause);
    this.#socket.destroy();
    for (const { command, reject } of this.#underWay.splice(0))
      reject(new ConnectionLost(`${shown(command)}: no reply, ${why}`, true, cause));
    this.#onLost(this.#lost);
  }

  #onReply(reply: Reply): void {
    const asked = this.#underWay.shift();
    if (asked === undefined) throw new ProtocolError(`${reply.line.slice(0, 60)} came unasked`);
    if (asked.accept.includes(reply.words[0]!)) {
      asked.resolve(reply);
      return;
    }
    const error = errorOf(shown(asked.command), reply.line);
    asked.reject(error);
    if (error instanceof ProtocolError) throw error;
  }
}

/** Shortens a command for messages, which end up in logs: no secret, and not a thousand ids. */
const shown = (command: string): string => (command.startsWith("auth ") ? "auth" : command.slice(0, 100));

/** The `use` may have been sent, but not the command after it. */
function notSent(error: unknown): never {
  throw error instanceof ConnectionLost ? new ConnectionLost(error.message, false, error.cause) : error;
}
