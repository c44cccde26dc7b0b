// One connection: commands go out, many a write; replies come back in their order.

import type { Socket } from "node:net";
import { ConnectionLost, errorOf, NotSupported, ProtocolError } from "./errors.ts";
import { type Reply, ReplyReader } from "./reply-reader.ts";

interface UnderWay {
  readonly command: string;
  readonly accept: readonly string[];
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

const CR_LF = Buffer.from("\r\n");

export class Wire {
  /** What the server has besides beanstalkd's commands. */
  extensions: ReadonlySet<string> = new Set();
  /** The tubes that it watches. */
  watched: readonly string[] = ["default"];
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
    socket.on("timeout", () => this.drop(new Error(`nothing came within ${socket.timeout} ms`)));
    socket.on("close", () => this.drop());
    // Nothing comes any more, but what the other side never reads would hold back the close.
    socket.on("end", () => this.drop());
    socket.on("data", (chunk: Buffer) => {
      try {
        if (this.#lost === undefined) reader.push(chunk);
      } catch (error) {
        this.drop(error);
      }
    });
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /**
   * Resolves to a reply that begins with a word of `accept` (separated by blanks), rejects with the error of its
   * class else. The body is copied.
   */
  request(command: string, accept: string, body?: Uint8Array): Promise<Reply> {
    // It has failed, and has not said so yet: who tries again is to find the next one.
    if (!this.#isEnding && !this.#socket.writable) this.drop();
    if (this.#lost !== undefined || this.#isEnding)
      return Promise.reject(new ConnectionLost(`${shown(command)}: not sent, the connection is gone`, false));
    // All that is sent in one turn leaves with one write.
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

  /** Rejects with NotSupported, and sends nothing, where the server lacks the command. */
  async extended(command: string, accept: string): Promise<Reply> {
    const verb = command.split(" ", 1)[0]!;
    if (this.extensions.has(verb)) return this.request(command, accept);
    throw new NotSupported(`the server has no ${verb}`, "UNKNOWN_COMMAND");
  }

  /**
   * Sends a command that concerns the tube in use. While another tube is in use it waits until the server has
   * said USING: behind a `use` that failed a put would end up in the wrong tube.
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

  /** Ends it after what is under way; resolves when it is closed. */
  async end(): Promise<void> {
    if (this.#lost !== undefined) return;
    this.#isEnding = true;
    const closed = new Promise((resolve) => this.#socket.once("close", resolve));
    this.#socket.end("quit\r\n");
    await this.inTime(closed);
  }

  /** Breaks the connection off if the server takes too long for this, which it is to answer at once. */
  async inTime<T>(work: Promise<T>): Promise<T> {
    const tooLate = (): void => this.drop(new Error(`no answer within ${this.#limitMs} ms`));
    const timer = setTimeout(tooLate, this.#limitMs);
    return await work.finally(() => clearTimeout(timer));
  }

  /** Has it broken off when nothing comes for so long; 0 for never. */
  limitSilence(limitMs: number): void {
    this.#socket.setTimeout(limitMs);
  }

  /** Breaks it off. */
  drop(cause?: unknown): void {
    if (this.#lost !== undefined) return;
    const why = cause instanceof Error ? cause.message : "the connection was closed";
    this.#lost = new ConnectionLost(why, false, cause);
    this.#socket.destroy();
    for (const { command, reject } of this.#underWay.splice(0))
      reject(new ConnectionLost(`${shown(command)}: no reply came, ${why}`, true, cause));
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

/** For messages, which end up in logs: no secret, and not a thousand ids. */
const shown = (command: string): string => (command.startsWith("auth ") ? "auth" : command.slice(0, 100));

/** The `use` may have been, but not the command behind it. */
function notSent(error: unknown): never {
  throw error instanceof ConnectionLost ? new ConnectionLost(error.message, false, error.cause) : error;
}
