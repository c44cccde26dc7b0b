// Lingering close after an early refusal: the server half-closes, and for a while reads and
// discards the bytes that the client still sends. A socket that is closed with unread bytes resets
// the connection, and the client may lose the answer.

import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Api } from "../api.ts";
import { Problem } from "../problem.ts";

/** Limits for one connection. */
const LINGER_MS_MAX = 5000;
const LINGER_BYTES_MAX = 64 << 20;
/** A refused body up to this length is read to its end, and its connection kept. */
const KEPT_OPEN_BYTES_MAX = 64 * 1024;

/** Node stores the response in progress there. */
interface HttpSocket extends Socket {
  readonly _httpMessage?: ServerResponse | null;
}

/** The response that the socket's next bytes would belong to. */
export const responseUnderWay = (socket: Socket): ServerResponse | undefined =>
  (socket as HttpSocket)._httpMessage ?? undefined;

export class LingeringClose {
  readonly #lingering = new WeakSet<Socket>();
  /** Connections that end with their response in progress. */
  readonly #refused = new WeakSet<Socket>();
  readonly #onCutOff: () => void;

  /** `onCutOff` is called for each connection whose client was still sending at the limit. */
  constructor(onCutOff: () => void) {
    this.#onCutOff = onCutOff;
  }

  /** Adds the close to the application. */
  addTo(api: Api): void {
    // Node starts requests that arrived in one packet with a refused one.
    api.addHook("onRequest", ({ raw }, _reply, done) => {
      if (this.#refused.has(raw.socket)) throw new Problem("bad-request", "The connection is closing.");
      done();
    });
    api.addHook("onSend", (request, reply, payload, done) => {
      if (reply.statusCode >= 400) this.prepare(request, reply);
      done(null, payload);
    });
  }

  /**
   * Makes the connection linger if it closes after this refusal, and lets it close if much of the
   * request, or an unknown part, is still to come.
   */
  prepare({ raw }: FastifyRequest, reply: FastifyReply): void {
    const { headers, socket } = raw;
    const length = headers["content-length"];
    if (raw.complete || (length === undefined && headers["transfer-encoding"] === undefined)) return;
    if (length === undefined || Number(length) > KEPT_OPEN_BYTES_MAX) {
      reply.header("connection", "close");
      this.#refused.add(socket);
    }
    // Node calls this after a response with "connection: close".
    socket.destroySoon = () => {
      if (raw.complete) Socket.prototype.destroySoon.call(socket);
      else this.end(socket);
    };
  }

  /** Tells whether this class has ended the socket. */
  has(socket: Socket): boolean {
    return this.#lingering.has(socket);
  }

  /** Sends `last` and the end, discards what arrives, and closes the socket at its end or limit. */
  end(socket: Socket, last = ""): void {
    if (this.#lingering.has(socket) || socket.destroyed) return;
    this.#lingering.add(socket);
    let bytes = 0;
    const cutOff = (): void => {
      this.#onCutOff();
      socket.destroy();
    };
    const timer = setTimeout(cutOff, LINGER_MS_MAX);
    // Takes the socket from the HTTP parser: requests after the refused one must not run.
    const discard = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > LINGER_BYTES_MAX) cutOff();
    };
    socket.on("data", discard);
    for (const listener of socket.listeners("data"))
      if (listener !== discard) socket.off("data", listener as () => void);
    socket.on("error", () => {});
    socket.on("close", () => clearTimeout(timer));
    socket.on("end", () => Socket.prototype.destroySoon.call(socket));
    socket.end(last);
    socket.resume();
  }
}
