// The routes whose answers /v1/events can send: it calls their handlers as a request would, with
// the rights of the client that watches.

import type { FastifyReply, FastifyRequest, RouteOptions } from "fastify";
import { type TSchema, Type } from "typebox";
import { checkTubes, requirePermission } from "../access/authentication.ts";
import type { Permission } from "../api.ts";
import { hooksOf } from "../api.ts";
import { validator } from "../app/validator.ts";
import { Problem } from "../problem.ts";
import type { Watched } from "./event-hub.ts";

type Check = ReturnType<typeof validator>;

interface LiveRoute {
  readonly url: string;
  readonly parts: readonly string[];
  readonly may: Permission | readonly Permission[];
  readonly checkParams: Check;
  readonly checkQuery: Check;
  readonly options: RouteOptions;
}

/** A route may read headers, and set some; they are not sent. */
const REPLY = { raw: { destroyed: false }, header: () => REPLY } as object as FastifyReply;

export class LiveRoutes {
  readonly #routes: LiveRoute[] = [];

  /** Takes a route if it is live. */
  add(options: RouteOptions): void {
    const { url, method, config, schema } = options;
    if (config?.live !== true || method !== "GET") return;
    const { params = Type.Object({}), querystring = Type.Object({}) } = schema ?? {};
    this.#routes.push({
      url,
      parts: url.split("/"),
      may: config.may ?? [],
      checkParams: validator(params as TSchema, true),
      checkQuery: validator(querystring as TSchema, true),
      options,
    });
  }

  /** Throws a Problem if there is no such resource, or the client may not see it. */
  watched(path: string, { identity, owner, seesTexts }: FastifyRequest): Watched {
    const [place = "", search = ""] = path.split(/\?(.*)/s);
    const parts = place.split("/");
    const route = this.#routes.find(
      (each) =>
        each.parts.length === parts.length &&
        each.parts.every((part, index) => part.startsWith(":") || part === parts[index]),
    );
    if (route === undefined)
      throw new Problem(
        "bad-request",
        `"${path}" can't be watched; use ${this.#routes.map(({ url }) => url).join(", ")}.`,
      );
    const named = route.parts.flatMap((part, index) =>
      part.startsWith(":") ? [[part.slice(1), decoded(parts[index]!)]] : [],
    );
    const request = {
      ...{ identity, owner, seesTexts, headers: {}, routeOptions: { url: route.url } },
      params: checked(route.checkParams, Object.fromEntries(named)),
      query: checked(route.checkQuery, Object.fromEntries(new URLSearchParams(search))),
    } as object as FastifyRequest;
    requirePermission(request, route.may);
    if (identity !== undefined) checkTubes(request, identity);
    const { handler, preHandler } = route.options;
    for (const check of hooksOf(preHandler))
      (check as (request: FastifyRequest, reply: FastifyReply, done: () => void) => void)(
        request,
        REPLY,
        () => {},
      );
    const look = handler as (request: FastifyRequest, reply: FastifyReply) => unknown;
    return {
      path,
      key: JSON.stringify([path, identity && [identity.name, identity.permissions, identity.tubes]]),
      look: async () => (await look(request, REPLY)) as object,
    };
  }
}

function checked(check: Check, given: object): unknown {
  const result = check(given);
  if ("error" in result) throw result.error;
  return result.value;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new Problem("bad-request", `"${part}" is not percent-encoded.`);
  }
}
