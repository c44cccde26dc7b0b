// Refuses input that doesn't become a request: bytes that Node's parser rejects, requests that
// arrive too slowly, and CONNECT.

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Api } from "../api.ts";
import { type LingeringClose, responseUnderWay } from "../limits/lingering-close.ts";
import { Problem } from "../problem.ts";

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
