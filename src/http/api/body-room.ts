// How many bytes of JSON and MessagePack requests may be under way at a time: slow ones pile up.

import type { FastifyRequest, onRequestHookHandler } from "fastify";
import { Busy } from "../queue/busy.ts";
import type { Api } from "./api.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Bytes that it may have of the room for all. */
    bodyRoom: number;
  }
}

/** Of all requests. Text takes twice that as it comes, and again as values, of a heap of 256 MiB. */
const UNDER_WAY_MAX = 32 << 20;

const GATHERED = /^application\/(?:json|(?:x-|vnd\.)?msgpack)/i;

export class BodyRoom {
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
      const before = [route.onRequest ?? []].flat();
      if (!before.includes(this.#onRequest)) route.onRequest = [...before, this.#onRequest];
    });
  }

  readonly #onRequest: onRequestHookHandler = (request, _reply, done) => {
    request.bodyRoom = this.#take(request);
    done();
  };

  /** The request is over. */
  give(request: FastifyRequest): void {
    this.#underWay -= request.bodyRoom;
    request.bodyRoom = 0;
  }

  /** What other types bring is not gathered. */
  #take({ raw: { headers } }: FastifyRequest): number {
    const type = headers["content-type"];
    if (type === undefined || (type !== "application/json" && !GATHERED.test(type))) return 0;
    const declared = Number(headers["content-length"] ?? this.#bytesMax);
    // One that is larger is refused as such.
    const bytes = Math.min(declared, this.#bytesMax);
    if (this.#underWay + bytes > UNDER_WAY_MAX) throw new Busy("Many large requests are under way");
    this.#underWay += bytes;
    return bytes;
  }
}
