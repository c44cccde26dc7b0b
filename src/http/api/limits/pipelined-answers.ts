// Limit of pipelined requests. Node starts all of them at once, a thousand from one packet, and
// holds each response until its turn. No other limit of a connection covers these responses and
// their memory.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Problem } from "../problem.ts";

/** For all connections of an address. Each response takes about 10 KB of heap. */
const WAITING_MAX = 2000;

/** Tells whether a response waits for earlier ones on its connection. */
export const isBehindAnother = ({ socket, destroyed }: ServerResponse): boolean =>
  socket === null && !destroyed;

export class PipelinedAnswers {
  #waiting = 0;

  /**
   * Counts a waiting response. Over the limit, it throws and closes the connection, which may have
   * sent more requests.
   */
  add(answer: ServerResponse, { socket }: IncomingMessage): void {
    this.#waiting++;
    answer.on("close", () => {
      this.#waiting--;
    });
    if (this.#waiting <= WAITING_MAX && !socket.destroyed) return;
    socket.destroy();
    throw new Problem("busy", "Too many requests wait for the answers to earlier ones.");
  }
}
