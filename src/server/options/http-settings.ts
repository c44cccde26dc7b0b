// HTTP settings that protect the server: TLS and the request rate.

import { type Setting, SettingError } from "../../config/setting.ts";

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
];
