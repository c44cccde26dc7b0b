// Translates TLS policies into options of node:tls, for protocol and HTTP servers, and reads the
// names in certificates.

import type { PeerCertificate, SecureContextOptions, Server, TlsOptions } from "node:tls";
import { assert } from "../../base/assert.ts";
import type { TlsPolicy } from "../admission/listener-policy.ts";

/** Loaded only if TLS is used: it takes a tenth of an acceptor's startup. */
const tls = (): typeof import("node:tls") => process.getBuiltinModule("node:tls");

export const createTlsServer = (options: TlsOptions): Server => tls().createServer(options);

/** A server whose certificate may change. */
export interface SecureServer {
  setSecureContext(options: SecureContextOptions): void;
}

/** A socket whose peer has presented a certificate, if one was required. */
export interface CheckedSocket {
  readonly authorized: boolean;
  getPeerCertificate(): PeerCertificate;
}

/** Time limit of a handshake. */
const HANDSHAKE_MS = 10_000;

/** Throws if the certificate or key is unusable. */
export function checkTls(policy: TlsPolicy): void {
  tls().createSecureContext(contextOf(policy));
}

/** Returns the options that may change while a server runs. */
export function contextOf({ cert, key, clientCa, minVersion }: TlsPolicy): SecureContextOptions {
  // For Node, an empty certificate is none, and an empty CA means all public ones.
  assert(cert !== "" && key !== "" && clientCa !== "", "a TLS policy has no empty part");
  return { cert, key, minVersion, ...(clientCa === undefined ? {} : { ca: clientCa }) };
}

/** Returns all options, including those that stay fixed until a restart. */
export function serverOptionsOf(policy: TlsPolicy): TlsOptions {
  const demands = policy.clientCa !== undefined;
  return {
    ...contextOf(policy),
    requestCert: demands,
    rejectUnauthorized: demands,
    handshakeTimeout: HANDSHAKE_MS,
  };
}

/** Returns the common name and the URIs of a certificate. */
export function namesOf({ subject, subjectaltname }: PeerCertificate): string[] {
  const { CN } = subject ?? {};
  return [...(typeof CN === "string" ? [CN] : []), ...urisOf(subjectaltname ?? "")];
}

/** One entry: a kind and a value, which is quoted if it contains a comma or a quote. */
const ALTERNATIVE_NAME = /([A-Za-z][A-Za-z ]*):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y;

/**
 * Returns the URIs of a subject alternative name. Malformed text yields none, lest one kind of name
 * pass for another.
 */
export function urisOf(text: string): string[] {
  const uris: string[] = [];
  ALTERNATIVE_NAME.lastIndex = 0;
  while (ALTERNATIVE_NAME.lastIndex < text.length) {
    const [, kind, value] = ALTERNATIVE_NAME.exec(text) ?? [];
    if (kind === undefined || value === undefined) return [];
    if (kind === "URI") uris.push(value.startsWith('"') ? JSON.parse(value) : value);
  }
  return uris;
}
