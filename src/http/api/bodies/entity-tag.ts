// Entity tags: who has the answer already and says so gets 304 and no content.

import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { wantsMsgpack } from "./media.ts";

/**
 * Tags the answer by what it says, `content`, without what merely tells when it was said; returns whether the client has
 * it. The tag is weak: what was left out may differ.
 */
export function isKnown(request: FastifyRequest, reply: FastifyReply, content: unknown): boolean {
  const hash = createHash("sha1").update(JSON.stringify(content)).digest("base64url");
  const tag = `W/"${wantsMsgpack(request) ? "m" : "j"}${hash}"`;
  reply.header("etag", tag);
  const known = request.headers["if-none-match"];
  if (known === undefined) return false;
  // By RFC 9110 weak and strong tags are compared alike here, and * is any.
  const opaque = (each: string): string => each.trim().replace(/^W\//, "");
  return known.trim() === "*" || known.split(",").some((each) => opaque(each) === opaque(tag));
}
