// Who a client of HTTPS is by its certificate, which TLS has checked.

import { type CheckedSocket, namesOf } from "../acceptor/sockets/tls-context.ts";

/** A connection has one certificate for all its requests. */
const known = new WeakMap<object, readonly string[]>();

/** None where no certificate was demanded; `socket` is that of a request. */
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
