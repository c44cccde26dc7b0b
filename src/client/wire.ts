// One connection: sends commands, several per write, and matches the replies in order.

import { connect as connectNet, isIP, type NetConnectOpts, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { reportLines } from "./command-text.ts";
import { ConnectionLost, errorOf, NotSupported, ProtocolError } from "./errors.ts";
import { type Meta, metaOf } from "./meta.ts";

// Opens sockets to an address: `host:port`, `[::1]:port`, `unix:PATH`, `tls:host:port`.

const PORT = 11_300;
const KEEP_ALIVE_MS = 30_000;
const ADDRESS = /^(?:tls:|tcp:|beanstalk:)?(?:\/\/)?(?:\[([\da-fA-F:.]+)\]|([^:/[\]\s]+))(?::(\d{1,5}))?$/;

/** A server as OpenTelemetry names it: host and port, or the path of a socket. */
export interface Server {
  readonly address: string;
  readonly port?: number;
}

/**
 * Returns a function that opens a connected socket, after the handshake with TLS. Throws TypeError
 * for an invalid address.
 */
export function dialer(
  address: string,
  tls: ConnectionOptions | undefined,
  limitMs = 10_000,
): () => Promise<Socket> {
  const { address: host, port } = serverOf(address);
  if (port === undefined) return () => dial({ path: host }, tls, limitMs);
  // SNI allows names but no IP addresses.
  const secure =
    address.startsWith("tls:") || tls !== undefined
      ? { ...(isIP(host) ? {} : { servername: host }), ...tls }
      : undefined;
  return () => dial({ host, port }, secure, limitMs);
}

/** Returns the host and the port of an address, or the path of a unix socket as the host. */
export function serverOf(address: string): Server {
  if (typeof address !== "string")
    throw new TypeError(`the address is ${JSON.stringify(address)}, not a text such as "127.0.0.1:11300"`);
  if (address.startsWith("unix:")) return { address: address.slice(5) };
  const [, v6, name, digits = PORT] = ADDRESS.exec(address) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65_535)
    throw new TypeError(
      `${address} is not a valid address: host:port, [::1]:port, unix:PATH or tls:host:port`,
    );
  return { address: host, port };
}

function dial(where: NetConnectOpts, tls: ConnectionOptions | undefined, limitMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = tls === undefined ? connectNet(where) : connectTls({ ...where, ...tls });
    const fail = (cause?: NodeJS.ErrnoException): void => {
      clearTimeout(timer);
      socket.destroy();
      // For a name with several addresses, the error's message is empty.
      const why =
        cause === undefined ? `no connection within ${limitMs} ms` : withoutAdvice(cause) || `${cause.code}`;
      reject(new ConnectionLost(why, false, cause));
    };
    const timer = setTimeout(fail, limitMs);
    socket.once("error", fail);
    socket.once(tls === undefined ? "connect" : "secureConnect", () => {
      clearTimeout(timer);
      socket.off("error", fail);
      socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
      resolve(socket);
    });
  });
}

/** Node adds advice about a flag of its own to errors of certificates; `ca` is the way here. */
export const withoutAdvice = ({ message }: Error): string => message.replace(/; if the root CA .*/s, "");

// Splits the server's data into replies, by their first words alone.

export interface ReservedBody {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly tube: string | undefined;
  /** With `meta=yes`, and in no other reply. */
  readonly meta: Meta;
}

export interface Reply {
  /** Without its CR LF. */
  readonly line: string;
  readonly words: readonly string[];
  /** For OK and FOUND. */
  readonly body?: Uint8Array;
  /** For RESERVED and RESERVED_BATCH. */
  readonly jobs: readonly ReservedBody[];
}

/** The longest line is DELETED_BATCH with a thousand missing ids. */
const LINE_BYTES_MAX = 65_536;
const BODY_BYTES_MAX = 2 ** 30;
const JOBS_MAX = 1000;
/** Position of the word with the length of the body. */
const LENGTH_AT: Readonly<Record<string, number>> = { OK: 1, RESERVED: 2, FOUND: 2 };

export class ReplyReader {
  readonly #onReply: (reply: Reply) => void;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Number of bytes that must arrive before it is worth looking again. */
  #needed = 1;
  #batch: { line: string; words: string[]; left: number; jobs: ReservedBody[] } | undefined;

  constructor(onReply: (reply: Reply) => void) {
    this.#onReply = onReply;
  }

  /** Throws ProtocolError for invalid data. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#bytes);
    let at = 0;
    for (let end = 0; end >= 0; at = Math.max(at, end)) end = this.#next(bytes, at);
    // A copy, so that a small rest doesn't keep the whole chunk alive.
    this.#chunks = at === bytes.length ? [] : [Buffer.from(bytes.subarray(at))];
    this.#bytes = bytes.length - at;
  }

  /** Returns the end of the line at `at` and its body, or -1 if they are incomplete. */
  #next(bytes: Buffer, at: number): number {
    const lineEnd = bytes.indexOf("\r\n", at);
    if ((lineEnd < 0 ? bytes.length : lineEnd) - at > LINE_BYTES_MAX)
      throw new ProtocolError("an endless line");
    this.#needed = bytes.length - at + 1;
    if (lineEnd < 0) return -1;
    const line = bytes.toString("latin1", at, lineEnd);
    const words = line.split(" ");
    const lengthAt = LENGTH_AT[words[0]!];
    if (!/^[A-Z_]+$/.test(words[0]!))
      throw new ProtocolError(`${JSON.stringify(line.slice(0, 60))} is not a valid reply`);
    const start = lineEnd + 2;
    if (lengthAt === undefined) {
      this.#reply(line, words, undefined);
      return start;
    }
    const end = start + numberOf(words[lengthAt], BODY_BYTES_MAX);
    this.#needed = end + 2 - at;
    if (bytes.length < end + 2) return -1;
    if (bytes.toString("latin1", end, end + 2) !== "\r\n")
      throw new ProtocolError("a body is longer than announced");
    this.#reply(line, words, new Uint8Array(bytes.subarray(start, end)));
    return end + 2;
  }

  #reply(line: string, words: string[], body: Uint8Array | undefined): void {
    const [word, id] = words;
    if (word === "RESERVED_BATCH") this.#batch = { line, words, left: numberOf(id, JOBS_MAX), jobs: [] };
    else if (word === "RESERVED") {
      this.#batch ??= { line, words, left: 1, jobs: [] };
      this.#batch.jobs.push({ id: numberOf(id, Number.MAX_SAFE_INTEGER), bytes: body!, ...detailsOf(words) });
      this.#batch.left--;
    } else if (this.#batch !== undefined) throw new ProtocolError(`${word} within a batch`);
    const batch = this.#batch ?? { line, words, left: 0, jobs: [], ...(body && { body }) };
    if (batch.left > 0) return;
    this.#batch = undefined;
    this.#onReply(batch);
  }
}

const META = "meta=";
const NO_META: Meta = Object.freeze({});

/** Returns the part after the length of a job. The name of a tube has no `=`. */
function detailsOf([, , , ...details]: readonly string[]): Pick<ReservedBody, "tube" | "meta"> {
  const [first] = details;
  const tube = first?.startsWith(META) ? undefined : first;
  const pairs = details.filter((word) => word.startsWith(META)).map((word) => word.slice(META.length));
  return { tube, meta: pairs.length === 0 ? NO_META : metaOf(pairs) };
}

function numberOf(word: string | undefined, most: number): number {
  if (word === undefined || !/^\d{1,16}$/.test(word) || Number(word) > most)
    throw new ProtocolError(`${word} is not a number up to ${most}`);
  return Number(word);
}

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

/** Reads the reply to `origins`, or to `stats`, whose `id` identifies a process. */
export function originsIn(body: Uint8Array | undefined, isOrigins: boolean): Origins {
  const pairs = reportLines(body).map((line) => line.split(": ") as [string, string]);
  if (isOrigins) return new Map(pairs.map(([id, below]) => [id, below === "all" ? ALL_IDS : Number(below)]));
  return new Map(pairs.filter(([key]) => key === "id").map(([, id]) => [id, ALL_IDS]));
}

/** Whether an id that the server `giver` gave means the same job where these origins are known. */
export const isValidAt = (known: Origins, giver: string | undefined, id: number): boolean =>
  giver !== undefined && id < (known.get(giver) ?? 0);

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

  async #askOrigins(): Promise<Origins> {
    const has = this.extensions.has("origins");
    try {
      const { body } = await this.request(has ? "origins" : "stats", "OK");
      this.#isIdentified = true;
      return originsIn(body, has);
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
