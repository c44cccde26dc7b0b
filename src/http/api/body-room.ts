// How many bytes of JSON and MessagePack requests may be under way at a time: slow ones pile up.

import type { FastifyRequest } from "fastify";
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

export class BodyRoom {
  readonly #bytesMax: number;
  #underWay = 0;

  /** Bytes that one request has at most. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** To be added behind the check who asks, so that nobody takes room who may not. */
  addTo(api: Api): void {
    api.addHook("preParsing", (request, _reply, payload, done) => {
      request.bodyRoom = this.#take(request);
      done(null, payload);
    });
  }

  /** The request is over. */
  give(request: FastifyRequest): void {
    this.#underWay -= request.bodyRoom;
    request.bodyRoom = 0;
  }

  /** What other types bring is not gathered. */
  #take({ headers }: FastifyRequest): number {
    if (!/^application\/(?:json|(?:x-|vnd\.)?msgpack)/i.test(headers["content-type"] ?? "")) return 0;
    const declared = Number(headers["content-length"] ?? this.#bytesMax);
    // One that is larger is refused as such.
    const bytes = Math.min(declared, this.#bytesMax);
    if (this.#underWay + bytes > UNDER_WAY_MAX) throw new Busy("Many large requests are under way");
    this.#underWay += bytes;
    return bytes;
  }
}
