// Entity tags: a client that already has the response gets 304 without content.

import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { wantsMsgpack } from "./media.ts";

/**
 * Tags the response by `content`, which leaves out mere timestamps, and tells whether the client
 * has it. The tag is weak because the omitted parts may differ.
 */
export function isKnown(request: FastifyRequest, reply: FastifyReply, content: unknown): boolean {
  const hash = createHash("sha1").update(JSON.stringify(content)).digest("base64url");
  const tag = `W/"${wantsMsgpack(request) ? "m" : "j"}${hash}"`;
  reply.header("etag", tag);
  const known = request.headers["if-none-match"];
  if (known === undefined) return false;
  // RFC 9110 has weak and strong tags compare alike here, and * matches any.
  const opaque = (each: string): string => each.trim().replace(/^W\//, "");
  return known.trim() === "*" || known.split(",").some((each) => opaque(each) === opaque(tag));
}
