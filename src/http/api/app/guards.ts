// Guards against requests for foreign host names and requests from other sites.
//
// If a server has no tokens, any page could make a browser on its machine send requests to it. Two
// headers expose that: Sec-Fetch-Site (or Origin) names the page's site, and Host carries the
// foreign name of a DNS rebinding attack.

import type { IncomingHttpHeaders } from "node:http";
import { Problem } from "../problem.ts";

const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
const IPV4 = /^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$/;
const IPV6 = /^\[[0-9a-fA-F:.]+\]$/;

/** Returns the name of a Host header, without its port. */
function hostName(host: string): string {
  return host.startsWith("[") ? host.slice(0, host.indexOf("]") + 1) : host.replace(/:[0-9]*$/, "");
}

/**
 * Throws if the request is for a foreign host. `hosts` holds the allowed names besides addresses
 * and localhost.
 */
export function checkHost(headers: IncomingHttpHeaders, hosts: ReadonlySet<string>): void {
  const { host } = headers;
  // HTTP/1.0 and unix sockets need no Host header, and every browser sends one.
  if (host === undefined || host === "") return;
  const name = hostName(host).toLowerCase();
  if (name === "localhost" || IPV4.test(name) || IPV6.test(name) || hosts.has(name)) return;
  throw new Problem(
    "wrong-host",
    `This server does not go by the name "${name}". Ask it by its address, or name it with --http-hosts ${name}.`,
  );
}

/** Throws if a browser sends a change on behalf of another site. */
export function checkSite(method: string, headers: IncomingHttpHeaders): void {
  if (SAFE_METHODS.has(method)) return;
  const site = headers["sec-fetch-site"];
  if (site === "same-origin" || site === "none") return;
  const { origin, host } = headers;
  if (site === undefined && (origin === undefined || sameHost(origin, host))) return;
  throw new Problem("cross-site", "A page of another site may not change anything here.");
}

function sameHost(origin: string, host: string | undefined): boolean {
  try {
    return new URL(origin).host === host?.toLowerCase();
  } catch {
    return false;
  }
}
