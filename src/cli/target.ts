// Server and token of a command, from --url and --token or from RUNNERBEAN_URL, RUNNERBEAN_HTTP_URL
// and RUNNERBEAN_TOKEN.

import type { Server } from "node:net";
import { FileFault, type FileKind, readOperatorFile } from "../config/operator-file.ts";
import { CommandFailed, ExitCode } from "./output.ts";

// Listens on the address that --listen names.

const PORT_MAX = 65_535;

/** Resolves with the address that the server listens on. Throws CommandFailed if it can't. */
export async function listenOn(server: Server, text: string): Promise<string> {
  const where = whereOf(text);
  await new Promise<void>((resolve, reject) => {
    server.once("listening", resolve);
    server.once("error", ({ message }) => {
      reject(new CommandFailed(`cannot listen on ${text}: ${message}`, ExitCode.NoConnection));
    });
    server.listen(where);
  });
  const bound = server.address();
  return bound !== null && typeof bound === "object" ? `${bound.address}:${bound.port}` : `${bound}`;
}

function whereOf(text: string): { path: string } | { host: string; port: number } {
  if (text.startsWith("unix:")) return { path: text.slice(5) };
  const [, v6, host, port] = /^(?:\[([\da-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text) ?? [];
  if (port === undefined || Number(port) > PORT_MAX)
    throw new CommandFailed(`${text} is not a valid address: host:port or unix:PATH`, ExitCode.BadArguments);
  return { host: v6 ?? host!, port: Number(port) };
}

const WIRE_DEFAULT = "beanstalk://127.0.0.1:11300";
const HTTP_DEFAULT = "http://127.0.0.1:11380";
const PORT = 11300;

export interface TargetOptions {
  readonly url?: string;
  /** The port of a server on this machine, instead of `url`. */
  readonly port?: string;
  readonly token?: string;
  readonly ca?: string;
  readonly timeout?: string;
}

/** Default time limit for a reply. */
export const TIMEOUT_SECONDS = 30;

export interface Target {
  readonly kind: "wire" | "http";
  /**
   * For the protocol, the address in the client's form ("host:port", "tls:host:port", "unix:PATH");
   * for HTTP, a URL without path.
   */
  readonly address: string;
  readonly token: string | undefined;
  /** Whether the token is of the environment, for all servers that take one. */
  readonly isTokenUsual?: boolean;
  /** Certificates of authorities, PEM. */
  readonly ca: string | undefined;
  /** Maximum silence while a reply is pending. */
  readonly limitMs: number;
}

const bad = (message: string): CommandFailed => new CommandFailed(message, ExitCode.BadArguments);

const noAddress = (url: string): CommandFailed =>
  bad(
    `${url} is not a valid address: beanstalk://host:port, tls://host:port, unix:PATH, http://host:port or https://host:port`,
  );

/** Returns the target. `kind` is the default if no address is given. Throws CommandFailed. */
export function targetOf(
  options: TargetOptions,
  environment: NodeJS.ProcessEnv,
  kind: Target["kind"] = "wire",
): Target {
  // An empty variable counts as unset.
  const variable = (name: string): string | undefined => environment[name] || undefined;
  const wireUrl = variable("RUNNERBEAN_URL");
  const httpUrl = variable("RUNNERBEAN_HTTP_URL") ?? wireUrl ?? HTTP_DEFAULT;
  if (options.url !== undefined && options.port !== undefined)
    throw bad(`give either --url or -p: the port can be part of the URL, as in ${WIRE_DEFAULT}`);
  const url =
    options.url ?? localUrl(options.port, kind) ?? (kind === "http" ? httpUrl : (wireUrl ?? WIRE_DEFAULT));
  const token = secretOf(options.token ?? variable("RUNNERBEAN_TOKEN"));
  const isTokenUsual = options.token === undefined;
  const ca = options.ca === undefined ? undefined : read("ca", options.ca);
  const limitMs = Number(options.timeout ?? TIMEOUT_SECONDS) * 1000;
  if (/^https?:\/\//.test(url)) return { kind: "http", address: originOf(url), token, ca, limitMs };
  return { kind: "wire", address: wireAddress(url), token, isTokenUsual, ca, limitMs };
}

const localUrl = (port: string | undefined, kind: Target["kind"]): string | undefined =>
  port === undefined ? undefined : `${kind === "http" ? "http" : "beanstalk"}://127.0.0.1:${port}`;

function originOf(url: string): string {
  if (URL.canParse(url)) return new URL(url).origin;
  throw noAddress(url);
}

/** Returns a token, or the content of the file whose name follows "@". */
function secretOf(text: string | undefined): string | undefined {
  // A variable that is filled from a file may end as its line does.
  const secret = text?.startsWith("@") ? read("secret", text.slice(1)) : text?.trim();
  // The token becomes part of a command line or a header. The message must not reveal it.
  if (secret === undefined || /^[\x20-\x7e]+$/.test(secret)) return secret;
  throw bad("a token is one line of ASCII: --token TOKEN, or @FILE to read it from a file");
}

function read(kind: FileKind, file: string): string {
  try {
    return readOperatorFile(kind, file);
  } catch (error) {
    if (error instanceof FileFault) throw bad(error.message);
    throw error;
  }
}

/** OpenSSL's codes for a certificate whose authority it doesn't know. */
const UNKNOWN_AUTHORITY =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(?:GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE).*)$/;

/** Returns the next step after an error of a certificate; "" for other codes. */
export const certificateHint = (code: string): string =>
  UNKNOWN_AUTHORITY.test(code)
    ? ": name the file of its authority with --ca; a self-signed certificate is its own"
    : "";

function wireAddress(url: string): string {
  if (url.startsWith("unix:")) return url;
  const [, scheme = "", host, port] =
    /^(?:(beanstalkd?|tcp|tls):\/\/)?(\[[\da-fA-F:.]+\]|[^:/[\]\s]+)(?::(\d{1,5}))?\/?$/.exec(url) ?? [];
  if (host === undefined || Number(port ?? PORT) < 1 || Number(port ?? PORT) > PORT_MAX) throw noAddress(url);
  return `${scheme.startsWith("tl") ? "tls:" : ""}${host}:${port ?? PORT}`;
}
