// Answers that never reach their client: what they carry has to be taken back.

import type { FastifyReply, FastifyRequest } from "fastify";

type Socket = FastifyRequest["raw"]["socket"];

/** Tells whether a successful response was written; call it when the response is closed. */
export const wasSent = ({ raw, statusCode }: FastifyReply): boolean =>
  raw.writableFinished && statusCode < 400;

/** The last such answer on a connection, and how much the client had sent by then. */
interface LastAnswer {
  readonly bytesRead: number;
  readonly takeBack: () => void;
}

const lastAnswers = new WeakMap<Socket, LastAnswer>();

/**
 * Calls `takeBack` if the client had closed the connection before the answer that was just written
 * came to it. Its kernel has reset the connection then, so the end that is read is followed by a
 * failure to write, even of nothing. A client that has read its answer leaves without a reset, or
 * with a reset and no end. Where the reset comes later, as over a network, or TLS is between,
 * nothing tells.
 */
export function onUnread(socket: Socket, takeBack: () => void): void {
  const isKnown = lastAnswers.has(socket);
  lastAnswers.set(socket, { bytesRead: socket.bytesRead, takeBack });
  if (isKnown) return;
  // Before the listener of Node's server, which ends the connection.
  socket.prependOnceListener("end", () => {
    const last = lastAnswers.get(socket)!;
    // A client that has sent more since may have read the answer.
    if (socket.bytesRead > last.bytesRead) return;
    socket.write("", (error) => {
      if (error != null) last.takeBack();
    });
  });
}
