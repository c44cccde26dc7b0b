// A raw client: sends bytes as told, reads exact replies, and closes in every way a socket can be
// closed.

import { createConnection, type NetConnectOpts, type Socket } from "node:net";
import { busyness } from "../machine/busyness.ts";

export interface Reply {
  /** The reply line without CR LF. */
  readonly line: string;
  /** The body without its CR LF, for RESERVED, FOUND and OK. */
  readonly body: Buffer | undefined;
}

const CRLF = Buffer.from("\r\n");
/** On a machine that isn't overloaded: a busy one has as many times longer as it is slower. */
const REPLY_MS = 10_000;
/** More than any load accounts for. */
const LONGEST_MS = 60_000;

export class WireClient {
  readonly socket: Socket;
  /** Limit for a reply, ms, if it isn't the default. */
  replyMs: number | undefined;
  #pending: Buffer = Buffer.alloc(0);
  #chunks: Buffer[] = [];
  #ended = false;
  #error: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    // A connection that a failing test leaves behind must not keep the test process alive.
    socket.unref();
    socket.on("data", (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#wake?.();
    });
    socket.on("end", () => this.#finish());
    socket.on("close", () => this.#finish());
    socket.on("error", (error) => {
      this.#error = error;
      this.#finish();
    });
  }

  static connect(address: NetConnectOpts): Promise<WireClient> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ ...address, allowHalfOpen: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.removeListener("error", reject);
        resolve(new WireClient(socket));
      });
    });
  }

  /** A string is sent as latin1: one character, one byte. */
  send(bytes: string | Uint8Array): void {
    this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Sends a line (CR LF is added) and reads its reply. */
  async ask(line: string): Promise<Reply> {
    this.send(`${line}\r\n`);
    return await this.readReply();
  }

  async put(body: string, options: { pri?: number; delay?: number; ttr?: number } = {}): Promise<Reply> {
    const { pri = 0, delay = 0, ttr = 60 } = options;
    return await this.ask(`put ${pri} ${delay} ${ttr} ${body.length}\r\n${body}`);
  }

  /** Reads exactly one reply, body included. Fails at the end of the stream and after `limitMs`. */
  async readReply(limitMs = this.replyMs): Promise<Reply> {
    const line = (await this.readUntil("\r\n", limitMs)).toString("latin1").slice(0, -2);
    const bodyBytes = bodyBytesOf(line);
    if (bodyBytes === undefined) return { line, body: undefined };
    const body = await this.readBytes(bodyBytes + 2, limitMs);
    if (!body.subarray(bodyBytes).equals(CRLF)) {
      throw new Error(
        `The body of "${line}" does not end in CR LF but in ${JSON.stringify(body.toString("latin1", bodyBytes))}`,
      );
    }
    return { line, body: body.subarray(0, bodyBytes) };
  }

  /** The bytes up to and including `terminator`. */
  async readUntil(terminator: string, limitMs = this.replyMs): Promise<Buffer> {
    let searched = 0;
    for (;;) {
      const at = this.#gather().indexOf(terminator, searched, "latin1");
      if (at >= 0) return this.#take(at + terminator.length);
      searched = Math.max(0, this.#pending.length - 1);
      await this.#more(
        limitMs,
        `a line; so far: ${JSON.stringify(this.#pending.toString("latin1", 0, 300))}`,
      );
    }
  }

  async readBytes(count: number, limitMs = this.replyMs): Promise<Buffer> {
    while (this.#bufferedBytes() < count) {
      await this.#more(limitMs, `${count} bytes; so far ${this.#bufferedBytes()}`);
    }
    this.#gather();
    return this.#take(count);
  }

  /**
   * Returns the bytes that have arrived or arrive within `limitMs`: empty if none do, null at the
   * end of the stream.
   */
  async readSome(limitMs: number | undefined): Promise<Buffer | null> {
    if (this.#bufferedBytes() === 0 && !this.#ended) await this.#wait(limitMs);
    const all = this.#gather();
    if (all.length === 0 && this.#ended) return null;
    return this.#take(all.length);
  }

  /** Fails if a byte or the end of the stream arrives within `forMs`. */
  async expectNothing(forMs: number): Promise<void> {
    const some = await this.readSome(forMs);
    if (some === null) throw new Error("Expected nothing, but the server closed the connection");
    if (some.length > 0)
      throw new Error(`Expected nothing, but got ${JSON.stringify(some.toString("latin1", 0, 300))}`);
  }

  /** Fails unless the stream ends, with no byte before that. */
  async expectEnd(limitMs = this.replyMs): Promise<void> {
    const some = await this.readSome(limitMs);
    if (some === null) return;
    throw new Error(
      some.length === 0
        ? `Not closed after ${limitMs ?? REPLY_MS} ms`
        : `Expected the end, got ${JSON.stringify(some.toString("latin1", 0, 300))}`,
    );
  }

  get error(): Error | undefined {
    return this.#error;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Whether unread bytes have arrived. */
  get hasUnread(): boolean {
    return this.#bufferedBytes() > 0;
  }

  halfClose(): void {
    this.socket.end();
  }

  close(): void {
    this.socket.destroy();
  }

  /**
   * Closes with RST. After a half-close Node 26 would spin for ever on that, so then it only
   * closes.
   */
  reset(): void {
    if (this.socket.writableEnded) this.socket.destroy();
    else this.socket.resetAndDestroy();
  }

  #finish(): void {
    this.#ended = true;
    this.#wake?.();
  }

  #bufferedBytes(): number {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.length, this.#pending.length);
  }

  #gather(): Buffer {
    if (this.#chunks.length > 0) {
      this.#pending = Buffer.concat([this.#pending, ...this.#chunks]);
      this.#chunks = [];
    }
    return this.#pending;
  }

  #take(count: number): Buffer {
    const taken = this.#pending.subarray(0, count);
    this.#pending = this.#pending.subarray(count);
    return taken;
  }

  async #more(limitMs: number | undefined, wanted: string): Promise<void> {
    if (this.#ended)
      throw new Error(
        `The connection ended${this.#error ? ` (${this.#error.message})` : ""} while waiting for ${wanted}`,
      );
    if (!(await this.#wait(limitMs)))
      throw new Error(`Nothing more within ${limitMs ?? REPLY_MS} ms while waiting for ${wanted}`);
  }

  /** True when something happened, false when the time was over. */
  #wait(limitMs: number | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const over = (): void => {
        const furtherMs = limitMs === undefined ? longestMs() - (performance.now() - startedAt) : 0;
        if (furtherMs > 0) timer = setTimeout(over, furtherMs);
        else done(false);
      };
      const startedAt = performance.now();
      let timer = setTimeout(over, limitMs ?? REPLY_MS);
      const done = (happened: boolean): void => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve(happened);
      };
      this.#wake = () => done(true);
    });
  }
}

const longestMs = (): number => Math.min(REPLY_MS * busyness(), LONGEST_MS);

/** The size a reply line announces for its body, if it is one of the three that have a body. */
export function bodyBytesOf(line: string): number | undefined {
  const match = /^(?:RESERVED \d+ (\d+)(?: [^ ]+)?|FOUND \d+ (\d+)|OK (\d+))$/.exec(line);
  return match === null ? undefined : Number(match[1] ?? match[2] ?? match[3]);
}
