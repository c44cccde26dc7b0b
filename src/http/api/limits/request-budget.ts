// How many bytes of JSON and MessagePack requests may be under way at a time: slow ones pile up.

import type { FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import { Busy } from "../../link/busy.ts";
import type { Api } from "../api.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Bytes that it may have of the room for all. */
    bodyRoom: number;
    /** Bytes that it may have at most. */
    bodyBytesMax: number;
  }
}

/** Of all requests. Text takes twice that as it comes, and again as values, of a heap of 256 MiB. */
const UNDER_WAY_MAX = 32 << 20;
/** What nobody said the length of gets so much at first, and then as much again as it has. */
const FIRST_BYTES = 64 * 1024;
/** Of a route that asks nobody who he is: so that nobody takes much room who may not. */
const OPEN_BYTES_MAX = 16 * 1024;

const GATHERED = /^\s*application\/(?:json|(?:x-|vnd\.)?msgpack)\s*(?:;|$)/i;

export class RequestBudget {
  readonly #bytesMax: number;
  #underWay = 0;

  /** Bytes that one request has at most. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** To be added behind the checks who asks and how often, so that nobody takes room who may not. */
  addTo(api: Api): void {
    // Of a route behind its other hooks, which are no others of all routes: one before parsing would be a round of its own.
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

  /** The request is over. */
  give(request: FastifyRequest): void {
    this.#underWay -= request.bodyRoom;
    request.bodyRoom = 0;
  }

  /** So many bytes have come, which may be more than there was room taken for: of a body whose length nobody said. Throws where there is none. */
  grow(request: FastifyRequest, bytes: number): void {
    const { bodyRoom, bodyBytesMax } = request;
    if (bytes > bodyRoom)
      this.#add(request, Math.max(bytes, Math.min(2 * bodyRoom, bodyBytesMax)) - bodyRoom);
  }

  /** What other types bring is not gathered. */
  #take(request: FastifyRequest, { raw }: FastifyReply, bytesMax: number): void {
    request.bodyBytesMax = bytesMax;
    const { headers } = request.raw;
    const type = headers["content-type"];
    if (type === undefined || (type !== "application/json" && !GATHERED.test(type))) return;
    // Who is gone while it was looked at who he is gives nothing back.
    if (raw.destroyed) throw new Busy("The client is gone");
    const declared = Number(headers["content-length"] ?? FIRST_BYTES);
    // One that is larger is refused as such.
    this.#add(request, Math.min(declared, bytesMax));
  }

  #add(request: FastifyRequest, bytes: number): void {
    if (this.#underWay + bytes > UNDER_WAY_MAX) throw new Busy("Many large requests are under way");
    this.#underWay += bytes;
    request.bodyRoom += bytes;
  }
}
