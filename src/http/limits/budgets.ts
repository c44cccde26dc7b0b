// Connection limit of an HTTP address. The last connections are reserved for probes and scrapes:
// waiting workers may use all others, and monitoring must not mistake the server for dead.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest, onRequestHookHandler, onSendHookHandler } from "fastify";
import type { Api } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { Busy } from "../link/control-client.ts";

const CONNECTIONS_MAX = 1024;
/**
 * Number of reserved connections. They serve only probes and metrics, and close after the first
 * response.
 */
const KEPT_MAX = 64;
/**
 * Number of reserved connections that stay free: a new one takes the place of the oldest that has
 * sent no request. Otherwise silent clients would hold all of them until their time is over.
 */
const FREE_MIN = 8;
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
  /** Reserved connections without a request so far, by the client's address and port. */
  readonly #silent = new Map<string, FastifyRequest["raw"]["socket"]>();
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
      const client = clientOf(socket);
      socket.on("close", () => {
        this.#open--;
        this.#silent.delete(client);
      });
      if (this.#open > CONNECTIONS_MAX - KEPT_MAX && client !== "") this.#silent.set(client, socket);
      if (this.#open > CONNECTIONS_MAX - FREE_MIN) this.#closeOldest();
    });
    // With TLS, requests arrive on another socket than the accepted one.
    const event = "setSecureContext" in server ? "secureConnection" : "connection";
    server.on(event, (socket: object) => {
      if (this.#open > CONNECTIONS_MAX - KEPT_MAX) this.#kept.add(socket);
    });
    server.on("drop", () => this.#refuse("closed at once"));
    api.addHook("onRequest", (request, reply, done) => {
      if (!this.#kept.has(request.raw.socket)) return done();
      this.#silent.delete(clientOf(request.raw.socket));
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

  #closeOldest(): void {
    const [oldest] = this.#silent.values();
    if (oldest === undefined) return;
    oldest.destroy();
    this.#refuse("closed before it sent a request");
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

/** Identifies a connection, under TLS too; "" for that of a unix socket. */
const clientOf = ({ remoteAddress, remotePort }: FastifyRequest["raw"]["socket"]): string =>
  remotePort === undefined ? "" : `${remoteAddress} ${remotePort}`;

// Memory budget for JSON and MessagePack requests in progress, since slow requests pile up.

declare module "fastify" {
  interface FastifyRequest {
    /** Bytes that are granted to the request. */
    bodyRoom: number;
    /** Maximum of bytes for the request. */
    bodyBytesMax: number;
  }
}

/**
 * For all requests. Their text takes twice this while it arrives, and again as values, in a heap of
 * 256 MiB.
 */
const UNDER_WAY_MAX = 32 << 20;
/** Initial grant when Content-Length is missing; it doubles as the body grows. */
const FIRST_BYTES = 64 * 1024;
/** Cap for unauthenticated routes, so that anonymous clients can't take much memory. */
const OPEN_BYTES_MAX = 16 * 1024;

const GATHERED = /^\s*application\/(?:json|(?:x-|vnd\.)?msgpack)\s*(?:;|$)/i;

export class RequestBudget {
  readonly #bytesMax: number;
  #underWay = 0;

  /** `bytesMax` is the maximum of one request. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Adds the budget to the application. Must run after authentication and rate limit are added, so
   * that refused requests take nothing.
   */
  addTo(api: Api): void {
    // Added to each route's own onRequest hooks: a hook before parsing would be another pass over
    // the request.
    api.addHook("onRoute", (route) => {
      const hook = route.config?.may === null ? this.#onOpenRequest : this.#onRequest;
      const before = [route.onRequest ?? []].flat();
      if (!before.includes(hook)) route.onRequest = [...before, hook];
    });
  }

  readonly #onRequest: onRequestHookHandler = (request, reply, done) => {
    this.#take(request, reply, this.#bytesMax);
    done();
  };

  readonly #onOpenRequest: onRequestHookHandler = (request, reply, done) => {
    this.#take(request, reply, OPEN_BYTES_MAX);
    done();
  };

  /** Takes back the grant of a finished request. */
  give(request: FastifyRequest): void {
    this.#underWay -= request.bodyRoom;
    request.bodyRoom = 0;
  }

  /**
   * Grants more to a body without Content-Length: `bytes` have arrived, maybe more than were
   * granted. Throws if the budget is exhausted.
   */
  grow(request: FastifyRequest, bytes: number): void {
    const { bodyRoom, bodyBytesMax } = request;
    if (bytes > bodyRoom)
      this.#add(request, Math.max(bytes, Math.min(2 * bodyRoom, bodyBytesMax)) - bodyRoom);
  }

  /** Bodies of other types are not gathered, and take nothing. */
  #take(request: FastifyRequest, { raw }: FastifyReply, bytesMax: number): void {
    request.bodyBytesMax = bytesMax;
    const { headers } = request.raw;
    const type = headers["content-type"];
    if (type === undefined || (type !== "application/json" && !GATHERED.test(type))) return;
    // If the client disconnected during authentication, nothing would return the grant.
    if (raw.destroyed) throw new Busy("The client has disconnected");
    const declared = Number(headers["content-length"] ?? FIRST_BYTES);
    // A larger body is refused for its size later.
    this.#add(request, Math.min(declared, bytesMax));
  }

  #add(request: FastifyRequest, bytes: number): void {
    if (this.#underWay + bytes > UNDER_WAY_MAX) throw new Busy("Many large requests are under way");
    this.#underWay += bytes;
    request.bodyRoom += bytes;
  }
}

// Limit of pipelined requests. Node starts all of them at once, a thousand from one packet, and
// holds each response until its turn. No other limit of a connection covers these responses and
// their memory.

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

// Memory budget for long responses in progress: a client that does not read keeps its response in
// memory.

/**
 * Shorter responses are not counted, since a connection sends one at a time. Those that wait for
 * earlier responses are counted.
 */
const SHORT_BYTES = 64 * 1024;

declare module "fastify" {
  interface FastifyRequest {
    /** Counted bytes of the response. */
    answerRoom: number;
  }
}

export class ResponseBudget {
  readonly #bytesMax: number;
  #underWay = 0;

  /**
   * `bytesMax` is the total of all long responses. One response is always allowed, however long.
   */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Adds the budget to the application. `shorten` compresses responses, which may take a while: the
   * full length counts before it runs, the new length afterwards.
   */
  addTo(api: Api, shorten?: onSendHookHandler): void {
    api.decorateRequest("answerRoom", 0);
    api.addHook("onSend", (request, { raw }, payload, done) => {
      const isWhole = typeof payload === "string" || Buffer.isBuffer(payload);
      // For a disconnected client, nothing would return the bytes.
      if (!isWhole || raw.destroyed || (payload.length <= SHORT_BYTES && !isBehindAnother(raw))) {
        done(null, payload);
        return;
      }
      // As a buffer, the payload lies outside the heap.
      const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
      this.#take(request, bytes.length);
      done(null, bytes);
    });
    if (shorten === undefined) return;
    api.addHook("onSend", shorten);
    api.addHook("onSend", (request, _reply, payload, done) => {
      const { answerRoom } = request;
      if (Buffer.isBuffer(payload) && payload.length < answerRoom) {
        this.#underWay -= answerRoom - payload.length;
        request.answerRoom = payload.length;
      }
      done(null, payload);
    });
  }

  /** Releases the bytes once the response is sent or the client has disconnected. */
  give(request: FastifyRequest): void {
    this.#underWay -= request.answerRoom;
    request.answerRoom = 0;
  }

  #take(request: FastifyRequest, bytes: number): void {
    if (this.#underWay > 0 && this.#underWay + bytes > this.#bytesMax)
      throw new Busy("Many long answers are on their way to clients that are slow to read");
    this.#underWay += bytes;
    request.answerRoom = bytes;
  }
}
