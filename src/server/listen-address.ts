// Where to listen: from the flags, or from systemd; checked before a thread is started for it.

import { lookup } from "node:dns/promises";
import { lstatSync, readFileSync, unlinkSync } from "node:fs";
import { connect, createServer } from "node:net";
import { ExitCode, OperatorError } from "./operator-error.ts";
import type { Options } from "./options.ts";

export type Listen =
  | { kind: "tcp"; host: string; port: number }
  | { kind: "unix"; path: string }
  | { kind: "descriptor"; fd: number };

const UNIX_PREFIX = "unix:";
const UNIX_PATH_BYTES_MAX = 107;
const FIRST_INHERITED_FD = 3;
const PORT_MAX = 65535;

const listenError = (message: string): OperatorError => new OperatorError(message, ExitCode.Listen);

/** The address to listen on; `notice` is told what the operator should know. */
export async function listenAddress(
  options: Options,
  environment: NodeJS.ProcessEnv,
  notice: (text: string) => void,
): Promise<Listen> {
  const inherited = inheritedSockets(environment);
  if (inherited > 0) {
    if (inherited > 1) notice("inherited more than one listen socket; ignoring all but the first");
    for (const { flag, value } of options.given)
      notice(`inherited listen fd; ignoring option: ${flag} ${value}`);
    return { kind: "descriptor", fd: FIRST_INHERITED_FD };
  }
  if (options.listen.startsWith(UNIX_PREFIX)) {
    const path = options.listen.slice(UNIX_PREFIX.length);
    await prepareSocketPath(path, notice);
    return { kind: "unix", path };
  }
  const port = portNumber(options.port);
  try {
    if (options.listen === "") throw new Error("Name or service not known");
    const { address } = await lookup(options.listen);
    return { kind: "tcp", host: address, port };
  } catch (error) {
    throw listenError(`cannot resolve address "${options.listen}": ${(error as Error).message}`);
  }
}

/** Number of sockets that systemd passed to this very process. */
function inheritedSockets(environment: NodeJS.ProcessEnv): number {
  const { LISTEN_PID: pid, LISTEN_FDS: count } = environment;
  delete environment["LISTEN_PID"];
  delete environment["LISTEN_FDS"];
  delete environment["LISTEN_FDNAMES"];
  return pid === String(process.pid) ? Number(count) || 0 : 0;
}

/** A port number, or the port of a TCP service by name; "" picks a free one. */
function portNumber(text: string): number {
  if (text === "") return 0;
  if (/^[0-9]+$/.test(text)) {
    if (Number(text) <= PORT_MAX) return Number(text);
    throw listenError(`invalid port: ${text} (0 to ${PORT_MAX})`);
  }
  let services = "";
  try {
    services = readFileSync("/etc/services", "utf8");
  } catch {
    // Without the file no name is known.
  }
  for (const line of services.split("\n")) {
    const [names, port] = [line.replace(/#.*/, "").split(/\s+/), /\s(\d+)\/tcp\b/.exec(line)?.[1]];
    if (port !== undefined && names.includes(text)) return Number(port);
  }
  throw listenError(`unknown port or service: ${text}`);
}

/** Makes sure that a socket can be bound at `path`; removes one that nobody serves any more. */
async function prepareSocketPath(path: string, notice: (text: string) => void): Promise<void> {
  const bytes = Buffer.byteLength(path);
  if (bytes === 0) throw listenError("empty socket path: write -l unix:/path/to/socket");
  if (bytes > UNIX_PATH_BYTES_MAX) {
    throw listenError(
      `socket path ${path} is too long (${bytes} characters), where maximum allowed is ${UNIX_PATH_BYTES_MAX}`,
    );
  }
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw listenError(`another file already exists in the given path: ${path}`);
  const served = await new Promise<boolean>((resolve) => {
    const probe = connect(path);
    probe.on("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.on("error", () => resolve(false));
  });
  if (served)
    throw listenError(`another server already answers on ${path}: stop it first, or choose another path`);
  notice("removing existing local socket to replace it");
  unlinkSync(path);
}

/**
 * Binds the address for a moment. With several acceptors each binds it for itself, and the kernel would let a second
 * server of the same user join them unnoticed. Returns the port, which is a free one if 0 was asked for.
 */
export async function probeAddress(host: string, port: number): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return address !== null && typeof address === "object" ? address.port : port;
}

/** The operator's message for an error of listen(). */
export function explainListenError(listen: Listen, code: string, message: string): OperatorError {
  if (listen.kind === "descriptor") {
    return listenError(`inherited fd is not a TCP or UNIX listening socket (${code})`);
  }
  const where = listen.kind === "tcp" ? `${listen.host} port ${listen.port}` : listen.path;
  if (code === "EADDRINUSE") {
    return listenError(
      `cannot listen on ${where}: Address already in use (is beanstalkd or another runnerbean running? stop it, or choose another with -p)`,
    );
  }
  if (code === "EADDRNOTAVAIL")
    return listenError(`cannot listen on ${where}: Cannot assign requested address`);
  if (code === "EACCES") {
    return listenError(`cannot listen on ${where}: Permission denied (ports below 1024 need root; see -u)`);
  }
  return listenError(`cannot listen on ${where}: ${message}`);
}
