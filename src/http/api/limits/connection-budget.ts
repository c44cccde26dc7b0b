// How many connections an address has. The last of them are kept for probes and scrapes: workers who wait take all others, and
// whoever looks after the server must not take it for dead then.

import type { Api } from "../api.ts";
import { Problem } from "../problem.ts";

export const CONNECTIONS_MAX = 1024;
/** So many of them serve probes and metrics alone, and end with their first answer. */
export const KEPT_MAX = 64;
/** What was refused is told at most this often, ms. */
const TOLD_EVERY_MS = 60_000;

export interface ConnectionRoomOptions {
  readonly nowMs: () => number;
  /** Is told of each connection that was closed, or of whose requests one was refused. */
  readonly onRefused: () => void;
  /** Is told why, once a minute. */
  readonly warn: (message: string) => void;
}

/** Of one address. */
export class ConnectionBudget {
  readonly #options: ConnectionRoomOptions;
  readonly #kept = new WeakSet<object>();
  #open = 0;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionRoomOptions) {
    this.#options = options;
  }

  /** To be added before all routes, and before it is asked who sends a request. */
  addTo(api: Api): void {
    const { server } = api;
    server.maxConnections = CONNECTIONS_MAX;
    server.on("connection", (socket) => {
      this.#open++;
      socket.on("close", () => {
        this.#open--;
      });
    });
    // With TLS requests come over another socket than the one that was accepted.
    const event = "setSecureContext" in server ? "secureConnection" : "connection";
    server.on(event, (socket: object) => {
      if (this.#open > CONNECTIONS_MAX - KEPT_MAX) this.#kept.add(socket);
    });
    server.on("drop", () => this.#refuse("closed at once"));
    api.addHook("onRequest", (request, reply, done) => {
      if (!this.#kept.has(request.raw.socket)) return done();
      reply.header("connection", "close");
      const { may, probe } = request.routeOptions.config;
      if (probe === true || may === "metrics") return done();
      this.#refuse("answered with 503");
      throw new Problem(
        "busy",
        `${CONNECTIONS_MAX - KEPT_MAX} connections are open, and the rest is for probes and metrics; try again in a moment.`,
      );
    });
  }

  #refuse(how: string): void {
    const { nowMs, onRefused, warn } = this.#options;
    onRefused();
    const now = nowMs();
    if (now < this.#toldAtMs + TOLD_EVERY_MS) return;
    this.#toldAtMs = now;
    const most = `${CONNECTIONS_MAX} are open at most, ${KEPT_MAX} of them for probes and metrics`;
    warn(`http: a connection too many was ${how}: ${most} (told once a minute)`);
  }
}
