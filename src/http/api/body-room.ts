// How many bytes of JSON and MessagePack requests may be under way at a time: slow ones pile up.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Busy } from "../queue/busy.ts";
import type { Api } from "./api.ts";

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
    api.addHook("preParsing", async (request, reply, payload) => {
      this.#take(request, reply);
      return payload;
    });
  }

  /** What other types bring is not gathered. */
  #take({ headers }: FastifyRequest, { raw }: FastifyReply): void {
    if (!/^application\/(?:json|(?:x-|vnd\.)?msgpack)/i.test(headers["content-type"] ?? "")) return;
    const declared = Number(headers["content-length"] ?? this.#bytesMax);
    // One that is larger is refused as such.
    const bytes = Math.min(declared, this.#bytesMax);
    if (this.#underWay + bytes > UNDER_WAY_MAX) throw new Busy("Many large requests are under way");
    this.#underWay += bytes;
    raw.once("close", () => {
      this.#underWay -= bytes;
    });
  }
}
