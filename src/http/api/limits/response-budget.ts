// Memory budget for long responses in progress: a client that does not read keeps its response in
// memory.

import type { FastifyReply, FastifyRequest, onSendHookHandler } from "fastify";
import { Busy } from "../../link/busy.ts";
import type { Api } from "../api.ts";
import { isBehindAnother } from "./pipelined-answers.ts";

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

/** Tells whether the client received a successful response. */
export const wasSent = ({ raw, statusCode }: FastifyReply): boolean =>
  raw.writableFinished && statusCode < 400;
