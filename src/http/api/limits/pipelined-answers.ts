// Requests that a client sends before it has the answers of those before them. Node begins all of them at once, a thousand of one packet, and
// keeps each answer until it is its turn: so many answers, and what was made for them, no other bound of a connection knows.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Problem } from "../problem.ts";

/** Of all connections. Each takes some 10 KB of the heap. */
const WAITING_MAX = 2000;

/** Whether an answer waits for those before it on its connection. */
export const isBehindAnother = ({ socket, destroyed }: ServerResponse): boolean =>
  socket === null && !destroyed;

export class PipelinedAnswers {
  #waiting = 0;

  /** Counts an answer that waits. Throws where too many do: the connection ends then, since it may have sent more. */
  add(answer: ServerResponse, { socket }: IncomingMessage): void {
    this.#waiting++;
    answer.on("close", () => {
      this.#waiting--;
    });
    if (this.#waiting <= WAITING_MAX && !socket.destroyed) return;
    socket.destroy();
    throw new Problem("busy", "Too many requests wait for the answers of those before them.");
  }
}
