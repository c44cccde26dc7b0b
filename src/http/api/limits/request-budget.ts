// Memory budget for JSON and MessagePack requests in progress, since slow requests pile up.

import type { FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import { Busy } from "../../link/busy.ts";
import type { Api } from "../api.ts";

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
