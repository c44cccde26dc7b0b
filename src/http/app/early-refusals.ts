// Lingering close after an early refusal: the server half-closes, and for a while reads and
// discards the bytes that the client still sends. A socket that is closed with unread bytes resets
// the connection, and the client may lose the answer.

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Api } from "../api/api.ts";
import { Problem } from "../api/problem.ts";

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
const responseUnderWay = (socket: Socket): ServerResponse | undefined =>
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

// Refuses input that doesn't become a request: bytes that Node's parser rejects, requests that
// arrive too slowly, and CONNECT.

type Refuse = (error: NodeJS.ErrnoException, socket: IncomingMessage["socket"]) => void;

/** Returns a function that refuses a socket's bytes because of a parser's error. */
export function refuseUnparsed(lingering: LingeringClose, newId: () => string): Refuse {
  return (error, socket) => {
    if (lingering.has(socket)) return;
    const problem = problemOf(error.code ?? "");
    const underWay = responseUnderWay(socket);
    // The client would mistake the refusal for the answer to an earlier request, or for a part of
    // it.
    const isBehind = underWay !== undefined && (underWay.headersSent || underWay.req.complete);
    if (problem === undefined || !socket.writable || isBehind) socket.destroy();
    else lingering.end(socket, responseOf(problem, newId()));
  };
}

/**
 * Answers CONNECT, which Node doesn't pass to the routes. Passes on requests with an unknown
 * Expect, which Node would refuse without a problem; the guard refuses them.
 */
export function takeUnrouted({ server }: Api, lingering: LingeringClose, newId: () => string): void {
  server.on("connect", ({ socket }) => {
    const problem = new Problem("method-not-allowed", "This server is not a proxy; see /v1/openapi.json.");
    // Node has removed its own listeners. No resource exists at such a target, so nothing is
    // allowed.
    lingering.end(socket, responseOf(problem, newId(), ["allow: "]));
  });
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
}

/** Returns undefined for errors of the connection, such as a failed TLS handshake. */
function problemOf(code: string): Problem | undefined {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return new Problem("request-timeout", "Send the whole request at once.");
  if (code === "HPE_HEADER_OVERFLOW")
    return new Problem("headers-too-big", "The headers of a request have at most 16 KiB.");
  if (!code.startsWith("HPE_")) return undefined;
  return new Problem("bad-request", `This is not HTTP/1.1 (${code}).`);
}

function responseOf(problem: Problem, id: string, headers: readonly string[] = []): string {
  const body = JSON.stringify(problem.body(id));
  return [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    `date: ${new Date().toUTCString()}`,
    "connection: close",
    "content-type: application/problem+json",
    `content-length: ${Buffer.byteLength(body)}`,
    "cache-control: no-store",
    "x-content-type-options: nosniff",
    `x-request-id: ${id}`,
    ...headers,
    "",
    body,
  ].join("\r\n");
}
