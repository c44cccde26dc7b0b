// Guards against requests that a proxy may parse differently, that name a foreign host, or that
// come from other sites.
//
// If a server has no tokens, any page could make a browser on its machine send requests to it. Two
// headers expose that: Sec-Fetch-Site (or Origin) names the page's site, and Host carries the
// foreign name of a DNS rebinding attack.

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { onRequestHookHandler } from "fastify";
import { type Api, hooksOf } from "../api.ts";
import { Problem } from "../problem.ts";

const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
const IPV4 = /^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$/;
const IPV6 = /^\[[0-9a-fA-F:.]+\]$/;
const PORT = /:[0-9]*$/;
/** The expression by which Node knows this expectation. */
const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i;
/** The absolute form of a target, with its authority. */
const ABSOLUTE = /^https?:\/\/([^/?#]*)/i;

/** The parts of a request that show its form. */
type Form = Pick<IncomingMessage, "httpVersion" | "url" | "headers" | "rawHeaders">;

/** Returns a function that throws if a request is refused by one of the guards. */
export function guardOf(
  hosts: ReadonlySet<string>,
  isSecure: boolean,
): (request: Form & Pick<IncomingMessage, "method">) => void {
  let knownHost: string | undefined;
  return (request) => {
    checkForm(request);
    const host = hostOf(request);
    if (host !== knownHost) {
      checkHost(host, hosts);
      knownHost = host;
    }
    checkSite(request.method ?? "", request.headers, isSecure);
  };
}

/** Throws for forms of a request that Node's parser accepts and RFC 9112 lets a server refuse. */
export function checkForm({ httpVersion, headers, rawHeaders }: Form): void {
  const refused = (detail: string): Problem => new Problem("bad-request", detail);
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw refused(`This server accepts HTTP/1.1 and HTTP/1.0, not HTTP/${httpVersion}.`);
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && (coding.toLowerCase() !== "chunked" || httpVersion === "1.0"))
    throw refused("The only Transfer-Encoding allowed is chunked, in HTTP/1.1.");
  // Node uses the first of several; another program may use the last.
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === "host") hosts++;
  if (hosts > 1 || (hosts === 0 && httpVersion === "1.1"))
    throw refused("A request must have exactly one Host.");
  // HTTP/1.0 has no expectations. Node has answered those of 100-continue.
  const { expect } = headers;
  if (expect !== undefined && httpVersion === "1.1" && !CONTINUE.test(expect))
    throw new Problem("expectation-failed", 'This server meets "Expect: 100-continue" and nothing else.');
}

/** Returns the host that the request is for. An absolute target takes precedence over Host. */
export function hostOf({ url = "", headers }: Pick<Form, "url" | "headers">): string | undefined {
  return url.startsWith("/") ? headers.host : (ABSOLUTE.exec(url)?.[1] ?? headers.host);
}

/**
 * Throws if the request is for a foreign host. `hosts` holds the allowed names besides addresses
 * and localhost.
 */
export function checkHost(host: string | undefined, hosts: ReadonlySet<string>): void {
  // HTTP/1.0 needs no Host header, one of HTTP/1.1 may be empty, and every browser sends a name.
  if (host === undefined || host === "") return;
  const name = host.replace(PORT, "").toLowerCase();
  if (name === "localhost" || IPV4.test(name) || IPV6.test(name) || hosts.has(name)) return;
  throw new Problem(
    "wrong-host",
    `This server does not have the name "${name}". Use its address, or start it with --http-hosts ${name}.`,
  );
}

/** Adds the guard against other sites to each GET that does more than read. */
export function guardReadsWithEffect(api: Api, isSecure: boolean): void {
  const guard: onRequestHookHandler = ({ headers }, _reply, done) => {
    refuseOtherSites(headers, isSecure);
    done();
  };
  api.addHook("onRoute", (route) => {
    if (route.config?.hasEffect === true) route.onRequest = [guard, ...hooksOf(route.onRequest)];
  });
}

/** Throws if a browser sends a change on behalf of another site. */
export function checkSite(method: string, headers: IncomingHttpHeaders, isSecure: boolean): void {
  if (!SAFE_METHODS.has(method)) refuseOtherSites(headers, isSecure);
}

function refuseOtherSites(headers: IncomingHttpHeaders, isSecure: boolean): void {
  const site = headers["sec-fetch-site"];
  if (site === "same-origin" || site === "none") return;
  // A browser gives no origin for an image or a link.
  const origin = headers.origin ?? headers.referer;
  if (site === undefined && (origin === undefined || isSameOrigin(origin, headers, isSecure))) return;
  throw new Problem("cross-site", "A page of another site may not change anything here.");
}

/** A page can't send X-Forwarded-Proto to another site: the browser's preflight request fails. */
function isSameOrigin(origin: string, { host, ...headers }: IncomingHttpHeaders, isSecure: boolean): boolean {
  const isHttps = isSecure || headers["x-forwarded-proto"] === "https";
  try {
    return new URL(origin).origin === new URL(`${isHttps ? "https" : "http"}://${host}`).origin;
  } catch {
    return false;
  }
}
