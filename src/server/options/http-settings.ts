// HTTP settings that protect the server: TLS and the request rate.

import { type FileTable, type ReadTable, type Setting, SettingError } from "../../config/setting.ts";
import { type HttpAlso, SERVED, type Served } from "../../http/http-address.ts";
import type { HttpAddress } from "../../http/http-thread.ts";
import { networks } from "./listener-settings.ts";

// HTTP address, as written on the command line.

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

// `[[http.also]]`: further HTTP addresses, each with the services that it offers.

const ALSO_MAX = 8;

type Also = { -readonly [Key in keyof HttpAlso]: HttpAlso[Key] };

export const HTTP_ALSO_SETTINGS: readonly Setting<Also>[] = [
  {
    key: "listen",
    kind: "port",
    text: "HOST:PORT, PORT or unix:PATH",
    example: "0.0.0.0:9380",
    apply(also, address) {
      also.address = parseHttpAddress(address);
    },
    show: ({ address }) => describeHttpAddress(address),
  },
  {
    key: "serve",
    kind: "list",
    text: `any of ${SERVED.join(", ")}; all by default`,
    example: ["health", "metrics"],
    set(also, names) {
      also.serves = names.map((name) => {
        const known = SERVED.find((each) => each === name);
        if (known === undefined) throw new SettingError(`${name} is not one of ${SERVED.join(", ")}`);
        return known;
      });
      if (names.length === 0) throw new SettingError(`name at least one of ${SERVED.join(", ")}`);
    },
    show: ({ serves }) => serves,
  },
  {
    key: "metrics-public",
    kind: "switch",
    text: "metrics need no token here",
    example: true,
    set(also, on) {
      also.metricsPublic = on;
    },
    show: ({ metricsPublic }) => (metricsPublic ? true : undefined),
  },
  {
    key: "secure",
    kind: "switch",
    text: "speak HTTPS, with the certificate of [http]",
    example: false,
    set(also, on) {
      also.tls = on;
    },
    show: ({ tls }) => (tls ? true : undefined),
  },
];

export function readHttpAlso(tables: readonly FileTable[], read: ReadTable): HttpAlso[] {
  if (tables.length > ALSO_MAX)
    throw new SettingError(`${tables.length} addresses: at most ${ALSO_MAX} are allowed`);
  return tables.map((table) => {
    const also: Also = { address: { host: "", port: 0 }, serves: SERVED, metricsPublic: false, tls: false };
    read(HTTP_ALSO_SETTINGS, ["listen"], also, table);
    return also;
  });
}

export function httpAlsoTable(also: HttpAlso): FileTable {
  const shown = HTTP_ALSO_SETTINGS.map((row) => [row.key, row.show(also)] as const);
  return Object.fromEntries(shown.filter(([, value]) => value !== undefined));
}

/**
 * Tells whether the address is safe without tokens: it is a loopback address or offers only
 * harmless services.
 */
export function isHarmless({ address, serves, metricsPublic }: HttpAlso): boolean {
  const needsNoToken: readonly Served[] = metricsPublic ? ["health", "metrics"] : ["health"];
  return isLoopback(address) || serves.every((each) => needsNoToken.includes(each));
}

/** TLS files and minimum version. */
export interface HttpTlsFiles {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly clientCa: string | undefined;
  readonly minVersion: "1.2" | "1.3";
}

interface Guarded {
  httpTls: HttpTlsFiles;
  /** Requests per second for each token, or each address without tokens; Infinity for no limit. */
  httpRequestsMax: number;
  /** Networks of proxies, whose connections begin with a PROXY header. */
  httpProxyFrom: readonly string[] | undefined;
}

export const NO_HTTP_TLS: HttpTlsFiles = {
  cert: undefined,
  key: undefined,
  clientCa: undefined,
  minVersion: "1.2",
};

/**
 * Returns the part that only a restart can change: whether TLS is on and client certificates are
 * required.
 */
export const unchangeableTls = ({ cert, clientCa }: HttpTlsFiles): string =>
  `${cert !== undefined} ${clientCa !== undefined}`;

export const HTTP_GUARD_SETTINGS: readonly Setting<Guarded>[] = [
  {
    key: "http.tls.cert",
    flags: "--http-tls-cert <file>",
    kind: "text",
    reloads: true,
    restartPart: ({ httpTls }) => `${httpTls.cert !== undefined}`,
    text: "with --http: serve HTTPS with this certificate chain, PEM",
    example: "/etc/runnerbean/cert.pem",
    apply(options, cert) {
      options.httpTls = { ...options.httpTls, cert };
    },
    show: ({ httpTls }) => httpTls.cert,
  },
  {
    key: "http.tls.key",
    flags: "--http-tls-key <file>",
    kind: "text",
    reloads: true,
    text: "the certificate's private key, PEM",
    example: "/etc/runnerbean/key.pem",
    apply(options, key) {
      options.httpTls = { ...options.httpTls, key };
    },
    show: ({ httpTls }) => httpTls.key,
  },
  {
    key: "http.tls.client-ca",
    flags: "--http-tls-client-ca <file>",
    kind: "text",
    reloads: true,
    restartPart: ({ httpTls }) => `${httpTls.clientCa !== undefined}`,
    text: "require HTTPS clients to have a certificate signed by one of these authorities, PEM",
    example: "/etc/runnerbean/clients.pem",
    apply(options, clientCa) {
      options.httpTls = { ...options.httpTls, clientCa };
    },
    show: ({ httpTls }) => httpTls.clientCa,
  },
  {
    key: "http.tls.min",
    flags: "--http-tls-min <version>",
    kind: "text",
    reloads: true,
    text: "minimum TLS version for HTTPS: 1.2 (default) or 1.3",
    example: "1.2",
    apply(options, version) {
      if (version !== "1.2" && version !== "1.3") throw new SettingError(`${version} is neither 1.2 nor 1.3`);
      options.httpTls = { ...options.httpTls, minVersion: version };
    },
    show: ({ httpTls }) => (httpTls.cert === undefined ? undefined : httpTls.minVersion),
  },
  {
    key: "http.max-requests",
    flags: "--http-max-requests <n>",
    kind: "number",
    reloads: true,
    text: "requests per second for each token, or for each address without tokens; further ones get a 429 (default: no limit)",
    example: 1000,
    apply(options, text) {
      const requests = Number(text);
      if (!/^[0-9]+$/.test(text) || requests < 1)
        throw new SettingError(`invalid number: http.max-requests ${text} (at least 1)`);
      options.httpRequestsMax = requests;
    },
    show: ({ httpRequestsMax }) =>
      httpRequestsMax === Number.POSITIVE_INFINITY ? undefined : httpRequestsMax,
  },
  {
    key: "http.proxy-from",
    flags: "--http-proxy-from <networks>",
    kind: "list",
    reloads: true,
    text: "with --http: the same as --proxy-from for all TCP addresses of HTTP",
    example: ["10.0.0.7"],
    set(options, proxies) {
      options.httpProxyFrom = networks(proxies);
    },
    show: ({ httpProxyFrom }) => httpProxyFrom,
  },
];
