// How many bytes of long answers may be on their way at a time: who does not read, keeps them in memory.

import type { FastifyReply, FastifyRequest, onSendHookHandler } from "fastify";
import { Busy } from "../../link/busy.ts";
import type { Api } from "../api.ts";
import { isBehindAnother } from "./pipelined-answers.ts";

/** Shorter answers are not counted: a connection sends one at a time. Those that wait behind it are. */
const SHORT_BYTES = 64 * 1024;

declare module "fastify" {
  interface FastifyRequest {
    /** Bytes of its answer that count. */
    answerRoom: number;
  }
}

export class ResponseBudget {
  readonly #bytesMax: number;
  #underWay = 0;

  /** Bytes of all long answers together; one is always sent, however long. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** With what makes answers shorter, which may take a while: they count before, and what is left of them behind it. */
  addTo(api: Api, shorten?: onSendHookHandler): void {
    api.decorateRequest("answerRoom", 0);
    api.addHook("onSend", (request, { raw }, payload, done) => {
      const isWhole = typeof payload === "string" || Buffer.isBuffer(payload);
      // Who is gone already gives nothing back.
      if (!isWhole || raw.destroyed || (payload.length <= SHORT_BYTES && !isBehindAnother(raw))) {
        done(null, payload);
        return;
      }
      // Kept beside the heap, as bytes.
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
