// How many bytes of long answers may be on their way at a time: who does not read, keeps them in memory.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Busy } from "../queue/busy.ts";
import type { Api } from "./api.ts";
import { isBehindAnother } from "./pipelined-answers.ts";

/** Shorter answers are not counted: a connection sends one at a time. Those that wait behind it are. */
const SHORT_BYTES = 64 * 1024;

declare module "fastify" {
  interface FastifyRequest {
    /** Bytes of its answer that count. */
    answerRoom: number;
  }
}

export class AnswerRoom {
  readonly #bytesMax: number;
  #underWay = 0;

  /** Bytes of all long answers together; one is always sent, however long. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** To be added behind what makes answers shorter. */
  addTo(api: Api): void {
    api.decorateRequest("answerRoom", 0);
    api.addHook("onSend", (request, { raw }, payload, done) => {
      const isWhole = typeof payload === "string" || Buffer.isBuffer(payload);
      // Who is gone already gives nothing back.
      if (!isWhole || raw.destroyed) return done(null, payload);
      if (!isBehindAnother(raw)) {
        if (payload.length > SHORT_BYTES) this.#take(request, payload.length);
        return done(null, payload);
      }
      // It waits in memory until it is its turn: beside the heap, as bytes.
      const bytes = Buffer.from(payload as Buffer);
      this.#take(request, bytes.length);
      done(null, bytes);
    });
  }

  /** The answer has been sent, or its client is gone. */
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

/** Whether the client has got what was meant for it. */
export const wasSent = ({ raw, statusCode }: FastifyReply): boolean =>
  raw.writableFinished && statusCode < 400;
