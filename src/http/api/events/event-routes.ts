// Route of resources that a client watches, as an event stream or once.

import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Routes } from "../api.ts";
import { Problem } from "../problem.ts";
import { Anything, Fields } from "../schemas.ts";
import { type Answer, answerOf, EventHub, type Watched } from "./event-hub.ts";
import { LiveRoutes } from "./live-routes.ts";

const PATHS_MAX = 10;
const Path = Type.String({ maxLength: 4000 });
const Query = Type.Object(
  {
    get: Type.Union([Path, Type.Array(Path, { minItems: 1, maxItems: PATHS_MAX })], {
      description: "Paths such as /v1/tubes?sort=oldest, each percent-encoded.",
    }),
  },
  { additionalProperties: false },
);
const Watch = Fields({
  at: Type.String({ description: "ISO 8601." }),
  answers: Type.Array(Fields({ path: Type.String(), status: Type.Integer(), content: Anything })),
});

/** Refusals that no further look changes. */
const LASTING: readonly number[] = [400, 401, 403];

/** State shared by all listeners: the limit on streams covers them together. */
export function eventRoutes(): Routes {
  let shared: { readonly hub: EventHub; readonly routes: LiveRoutes } | undefined;
  return (api, service) => {
    if (shared === undefined) {
      const routes = new LiveRoutes();
      shared = { hub: new EventHub(service), routes };
      // This must be the first of the routes.
      api.addHook("onRoute", (route) => routes.add(route));
    }
    const { hub, routes } = shared;
    api.addHook("preClose", (done) => {
      hub.stop();
      done();
    });

    const firstAnswer = (watched: Watched): Promise<Answer> =>
      answerOf(watched).catch((error) => {
        if (!(error instanceof Problem) || LASTING.includes(error.status)) throw error;
        return hub.refused(watched.path, error);
      });

    api.get(
      "/v1/events",
      {
        config: { may: "view", quiet: true },
        schema: {
          summary: "The answers of other paths, as a stream of changes (text/event-stream) or once (JSON)",
          querystring: Query,
          response: { 200: Watch, 204: Anything },
        },
      },
      async (request, reply) => {
        const all = [request.query.get].flat().map((path) => routes.watched(path, request as FastifyRequest));
        const answers = await Promise.all(all.map(firstAnswer));
        const now = { at: hub.at, answers };
        if (!(request.headers.accept ?? "").includes("text/event-stream")) return now;
        // The client disconnected, so no event would ever close the stream.
        if (reply.raw.destroyed) return now;
        if (!hub.hasRoom(request.ip)) {
          // An EventSource treats 204 as the end and doesn't reconnect; the page polls instead.
          return reply.code(204).send({});
        }
        reply.hijack();
        const { raw } = reply;
        raw.writeHead(200, {
          "content-type": "text/event-stream; charset=utf-8",
          "cache-control": "no-store",
          "x-accel-buffering": "no",
          "x-content-type-options": "nosniff",
        });
        // A HEAD request gets only the headers; a stream would never close.
        if (request.method === "HEAD") {
          raw.end();
          return reply;
        }
        const close = hub.open(request.ip, all, answers, raw, request.stands);
        raw.on("close", close);
        return reply;
      },
    );
  };
}
