// Names of an HTTPS client, from its certificate, which TLS has verified.

import { type CheckedSocket, namesOf } from "../acceptor/sockets/tls-context.ts";

/** Cached, since all requests of a connection share one certificate. */
const known = new WeakMap<object, readonly string[]>();

/** Returns the names for a request's socket; none without a verified certificate. */
export function certificateNames(socket: object): readonly string[] {
  const { authorized, getPeerCertificate } = socket as Partial<CheckedSocket>;
  if (authorized !== true || getPeerCertificate === undefined) return [];
  let names = known.get(socket);
  if (names === undefined) {
    names = namesOf((socket as CheckedSocket).getPeerCertificate());
    known.set(socket, names);
  }
  return names;
}
