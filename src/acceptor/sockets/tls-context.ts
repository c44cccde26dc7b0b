// What a policy means to node:tls, for a server of the protocol and one of HTTP; and who a certificate is for.

import type { PeerCertificate, SecureContextOptions, Server, TlsOptions } from "node:tls";
import type { TlsPolicy } from "../admission/listener-policy.ts";

/** Only where something is served with TLS: it takes a tenth of an acceptor's start. */
const tls = (): typeof import("node:tls") => process.getBuiltinModule("node:tls");

export const createTlsServer = (options: TlsOptions): Server => tls().createServer(options);

/** A server whose certificate may change. */
export interface SecureServer {
  setSecureContext(options: SecureContextOptions): void;
}

/** A socket that has shown a certificate, if it was demanded. */
export interface CheckedSocket {
  readonly authorized: boolean;
  getPeerCertificate(): PeerCertificate;
}

/** So long a handshake may take. */
const HANDSHAKE_MS = 10_000;

/** Throws where certificate and key can't be used. */
export function checkTls(policy: TlsPolicy): void {
  tls().createSecureContext(contextOf(policy));
}

/** What may change while a server runs. */
export function contextOf({ cert, key, clientCa, minVersion }: TlsPolicy): SecureContextOptions {
  return { cert, key, minVersion, ...(clientCa === undefined ? {} : { ca: clientCa }) };
}

/** The same, and what stays as it was until a restart. */
export function serverOptionsOf(policy: TlsPolicy): TlsOptions {
  const demands = policy.clientCa !== undefined;
  return {
    ...contextOf(policy),
    requestCert: demands,
    rejectUnauthorized: demands,
    handshakeTimeout: HANDSHAKE_MS,
  };
}

/** Common name and URIs of a certificate. */
export function namesOf({ subject, subjectaltname }: PeerCertificate): string[] {
  const { CN } = subject ?? {};
  return [...(typeof CN === "string" ? [CN] : []), ...urisOf(subjectaltname ?? "")];
}

/** One entry: a kind, and a value that is in quotes where it has a comma or a quote itself. */
const ALTERNATIVE_NAME = /([A-Za-z][A-Za-z ]*):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y;

/** None at all where the text is not as it should be: one kind of name must not pass for another. */
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
