// Connection limit of an HTTP address. The last connections are reserved for probes and scrapes:
// waiting workers may use all others, and monitoring must not mistake the server for dead.

import type { Api } from "../api.ts";
import { Problem } from "../problem.ts";

const CONNECTIONS_MAX = 1024;
/**
 * Number of reserved connections. They serve only probes and metrics, and close after the first
 * response.
 */
const KEPT_MAX = 64;
/** Minimum time between two warnings, ms. */
const TOLD_EVERY_MS = 60_000;

interface ConnectionRoomOptions {
  readonly nowMs: () => number;
  /** Called for each connection that is closed, and for each request that is refused. */
  readonly onRefused: () => void;
  /** Receives the reason, at most once a minute. */
  readonly warn: (message: string) => void;
}

/** The connections of one address. */
export class ConnectionBudget {
  readonly #options: ConnectionRoomOptions;
  readonly #kept = new WeakSet<object>();
  #open = 0;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionRoomOptions) {
    this.#options = options;
  }

  /**
   * Adds the limit to the application. Must run before the routes and the authentication are added.
   */
  addTo(api: Api): void {
    const { server } = api;
    server.maxConnections = CONNECTIONS_MAX;
    server.on("connection", (socket) => {
      this.#open++;
      socket.on("close", () => {
        this.#open--;
      });
    });
    // With TLS, requests arrive on another socket than the accepted one.
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
        `${CONNECTIONS_MAX - KEPT_MAX} connections are open, and the rest are for probes and metrics; try again in a moment.`,
      );
    });
  }

  #refuse(how: string): void {
    const { nowMs, onRefused, warn } = this.#options;
    onRefused();
    const now = nowMs();
    if (now < this.#toldAtMs + TOLD_EVERY_MS) return;
    this.#toldAtMs = now;
    const most = `at most ${CONNECTIONS_MAX} may be open, ${KEPT_MAX} of them for probes and metrics`;
    warn(`http: a connection above the limit was ${how}: ${most} (logged at most once a minute)`);
  }
}
