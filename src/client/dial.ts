// Opens sockets to an address: `host:port`, `[::1]:port`, `unix:PATH`, `tls:host:port`.

import { connect as connectNet, isIP, type NetConnectOpts, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { ConnectionLost } from "./errors.ts";

const PORT = 11_300;
const KEEP_ALIVE_MS = 30_000;
const ADDRESS = /^(?:tls:|tcp:|beanstalk:)?(?:\/\/)?(?:\[([\da-fA-F:.]+)\]|([^:/[\]\s]+))(?::(\d{1,5}))?$/;

/** A server as OpenTelemetry names it: host and port, or the path of a socket. */
export interface Server {
  readonly address: string;
  readonly port?: number;
}

/**
 * Returns a function that opens a connected socket, after the handshake with TLS. Throws TypeError
 * for an invalid address.
 */
export function dialer(
  address: string,
  tls: ConnectionOptions | undefined,
  limitMs = 10_000,
): () => Promise<Socket> {
  const { address: host, port } = serverOf(address);
  if (port === undefined) return () => dial({ path: host }, tls, limitMs);
  // SNI allows names but no IP addresses.
  const secure =
    address.startsWith("tls:") || tls !== undefined
      ? { ...(isIP(host) ? {} : { servername: host }), ...tls }
      : undefined;
  return () => dial({ host, port }, secure, limitMs);
}

/** Returns the host and the port of an address, or the path of a unix socket as the host. */
export function serverOf(address: string): Server {
  if (address.startsWith("unix:")) return { address: address.slice(5) };
  const [, v6, name, digits = PORT] = ADDRESS.exec(address) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65_535)
    throw new TypeError(
      `${address} is not a valid address: host:port, [::1]:port, unix:PATH or tls:host:port`,
    );
  return { address: host, port };
}

function dial(where: NetConnectOpts, tls: ConnectionOptions | undefined, limitMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = tls === undefined ? connectNet(where) : connectTls({ ...where, ...tls });
    const fail = (cause?: NodeJS.ErrnoException): void => {
      clearTimeout(timer);
      socket.destroy();
      // For a name with several addresses, the error's message is empty.
      const why =
        cause === undefined ? `no connection within ${limitMs} ms` : cause.message || `${cause.code}`;
      reject(new ConnectionLost(why, false, cause));
    };
    const timer = setTimeout(fail, limitMs);
    socket.once("error", fail);
    socket.once(tls === undefined ? "connect" : "secureConnect", () => {
      clearTimeout(timer);
      socket.off("error", fail);
      socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
      resolve(socket);
    });
  });
}
