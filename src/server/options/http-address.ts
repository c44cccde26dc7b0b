// HTTP address, as written on the command line.

import { SettingError } from "../../config/setting.ts";
import type { HttpAddress } from "../../http/http-thread.ts";

const HTTP_PORT = 11380;
export const HTTP_DEFAULT = `127.0.0.1:${HTTP_PORT}`;
const PORT_MAX = 65_535;

/** Parses `HOST`, `HOST:PORT`, `PORT`, `[IPV6]:PORT` or `unix:PATH`. */
export function parseHttpAddress(text: string): HttpAddress {
  if (text.startsWith("unix:") && text.length > "unix:".length) return { path: text.slice("unix:".length) };
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/\s]*))(?::([0-9]+))?$/.exec(text);
  if (parts === null) throw wrong(text);
  const [, ipv6, name, portText] = parts;
  if (ipv6 === undefined && portText === undefined && /^[0-9]+$/.test(name!))
    return { host: "127.0.0.1", port: port(text, name!) };
  const host = ipv6 ?? name!;
  return {
    host: host === "" ? "127.0.0.1" : host,
    port: portText === undefined ? HTTP_PORT : port(text, portText),
  };
}

function port(text: string, digits: string): number {
  const number = Number(digits);
  if (number > PORT_MAX) throw wrong(text);
  return number;
}

const wrong = (text: string): SettingError =>
  new SettingError(`invalid address: --http ${text} (HOST:PORT, PORT or unix:PATH)`);

/** Tells whether only the machine itself can reach the address. */
export function isLoopback(address: HttpAddress): boolean {
  if ("path" in address) return true;
  const { host } = address;
  return host === "localhost" || host === "::1" || /^127\.[0-9]+\.[0-9]+\.[0-9]+$/.test(host);
}

export function describeHttpAddress(address: HttpAddress): string {
  if ("path" in address) return `unix:${address.path}`;
  return address.host.includes(":") ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}
