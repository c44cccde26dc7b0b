// Refuses what a route doesn't know: a parameter of the query, or a body where none is taken. In a
// request that changes something, a typo must not be silent.

import type { preHandlerHookHandler } from "fastify";
import type { Api } from "../api.ts";
import { Problem } from "../problem.ts";
import { ProblemBody } from "../schemas.ts";

/** Routes for people and programs. Probes and scrapes may have parameters of their own. */
const STRICT = "/v1/";
const WITHOUT_BODY: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/**
 * Must be called before the routes are added. The checks run after those of permissions, which say
 * more.
 */
export function refuseUnknown(api: Api): void {
  api.addHook("onRoute", (route) => {
    if (!route.url.startsWith(STRICT)) return;
    const { querystring = {}, body, response = {} } = route.schema ?? {};
    route.schema = { ...route.schema, response: { 400: ProblemBody, ...(response as object) } };
    const checks = [route.preHandler ?? []].flat();
    // A schema that says itself what it does with other parameters has been applied.
    if (!("additionalProperties" in (querystring as object)))
      checks.push(refuseParameters(Object.keys((querystring as { properties?: object }).properties ?? {})));
    if (body === undefined && !WITHOUT_BODY.has(`${route.method}`)) checks.push(refuseBody);
    route.preHandler = checks;
  });
}

function refuseParameters(known: readonly string[]): preHandlerHookHandler {
  const others = known.length === 0 ? "" : `; known are ${known.join(", ")}`;
  return ({ query }, _reply, done) => {
    for (const name of Object.keys(query as object))
      if (!known.includes(name)) throw new Problem("bad-request", `"/${name}" is not known here${others}.`);
    done();
  };
}

/** Clients name the type of a content even where they send none, and some send an empty object. */
const refuseBody: preHandlerHookHandler = ({ body }, _reply, done) => {
  if (body === undefined || body === null) return done();
  const isRaw = typeof body !== "object" || Array.isArray(body) || ArrayBuffer.isView(body);
  // The fields of bytes and lists are their indices, of which there may be millions.
  const [field] = isRaw ? [""] : Object.keys(body);
  if (field === undefined || (Array.isArray(body) && body.length === 0)) return done();
  throw new Problem(
    "bad-request",
    isRaw ? "This request takes no body." : `"/${field}" is not known here: this request takes no body.`,
  );
};
