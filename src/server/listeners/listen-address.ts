// Listen addresses, from the flags or from systemd, checked before any thread starts for them.

import { lookup } from "node:dns/promises";
import { chmodSync, chownSync, existsSync, lstatSync, readFileSync, unlinkSync } from "node:fs";
import * as net from "node:net";
import { dirname } from "node:path";
import { getSystemErrorMessage, getSystemErrorName } from "node:util";
import { hostAndPort, type ListenerOptions, portNumber } from "../options/listener-settings.ts";
import { ExitCode, OperatorError } from "../options/operator-error.ts";
import type { Options } from "../options/options.ts";

export type Listen =
  | { kind: "tcp"; host: string; port: number }
  | UnixListen
  | { kind: "descriptor"; fd: number };

interface UnixListen {
  readonly kind: "unix";
  readonly path: string;
  /** Permissions of the socket, unless the umask decides. */
  readonly mode?: number | undefined;
  readonly group?: string | undefined;
}

const UNIX_PREFIX = "unix:";
const UNIX_PATH_BYTES_MAX = 107;
const FIRST_INHERITED_FD = 3;

const listenError = (message: string): OperatorError => new OperatorError(message, ExitCode.Listen);

/** Returns the address to listen on. `notice` receives notices for the operator. */
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
  if (options.listen.startsWith(UNIX_PREFIX))
    return await unixAddress(options.listen.slice(UNIX_PREFIX.length), notice);
  return await tcpAddress(options.listen, options.port);
}

export async function furtherAddress(
  { address, mode, group }: ListenerOptions,
  notice: (text: string) => void,
): Promise<Listen> {
  const tcp = hostAndPort(address);
  if (tcp !== undefined) return await tcpAddress(tcp.host, tcp.port);
  return { ...(await unixAddress(address.slice(UNIX_PREFIX.length), notice)), mode, group };
}

/** Checks the paths of all sockets that a server with these options opens. */
export function checkSocketPaths({ listen, listeners, http, httpAlso }: Options): void {
  for (const address of [listen, ...listeners.map((each) => each.address)])
    if (address.startsWith(UNIX_PREFIX)) checkSocketPath(address.slice(UNIX_PREFIX.length));
  for (const address of [http, ...httpAlso.map((also) => also.address)])
    if (address !== undefined && "path" in address) checkSocketPath(address.path);
}

async function unixAddress(path: string, notice: (text: string) => void): Promise<UnixListen> {
  await prepareSocketPath(path, notice);
  return { kind: "unix", path };
}

async function tcpAddress(name: string, portName: string): Promise<Listen> {
  const port = portNumber(portName);
  try {
    if (name === "") throw new Error("Name or service not known");
    const { address } = await lookup(name);
    return { kind: "tcp", host: address, port };
  } catch (error) {
    throw listenError(`cannot resolve address "${name}": ${(error as Error).message}`);
  }
}

function inheritedSockets(environment: NodeJS.ProcessEnv): number {
  const { LISTEN_PID: pid, LISTEN_FDS: count } = environment;
  delete environment["LISTEN_PID"];
  delete environment["LISTEN_FDS"];
  delete environment["LISTEN_FDNAMES"];
  return pid === String(process.pid) ? Number(count) || 0 : 0;
}

/** Throws an OperatorError if the kernel takes no socket of this path. */
function checkSocketPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes === 0) throw listenError("empty socket path: write -l unix:/path/to/socket");
  if (bytes > UNIX_PATH_BYTES_MAX) {
    throw listenError(
      `socket path ${path} is too long (${bytes} characters), where maximum allowed is ${UNIX_PATH_BYTES_MAX}`,
    );
  }
}

/** Makes sure that a socket can be bound at `path`. Removes a socket that no server answers on. */
export async function prepareSocketPath(path: string, notice: (text: string) => void): Promise<void> {
  checkSocketPath(path);
  const listen: Listen = { kind: "unix", path };
  try {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined) return;
    if (!found.isSocket()) throw listenError(`another file already exists in the given path: ${path}`);
    const answer = await probeSocket(path);
    if (answer === "ENOENT") return;
    // Only ECONNREFUSED means that there is no server. EAGAIN, for example, comes from a live one
    // with a full backlog.
    if (answer === "connected" || answer === "EAGAIN")
      throw listenError(`another server already answers on ${path}: stop it first, or choose another path`);
    if (answer !== "ECONNREFUSED") throw explainListenError(listen, answer, answer);
    notice("removing existing local socket to replace it");
    unlinkSync(path);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    throw explainListenError(listen, code ?? "UNKNOWN", message);
  }
}

/** Returns "connected" or the error's code. */
function probeSocket(path: string): Promise<string> {
  return new Promise((resolve) => {
    const probe = net.connect(path);
    probe.on("connect", () => {
      probe.destroy();
      resolve("connected");
    });
    probe.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code ?? "UNKNOWN"));
  });
}

/** Internal function of node:net that binds an address without listening. */
interface HandleMaker {
  _createServerHandle(path: string, port: -1, addressType: -1): { readonly fd: number } | number;
  _createServerHandle(host: string, port: number, addressType: 4 | 6): TcpHandle | number;
}

interface TcpHandle {
  /** Returns the error of the bind, or 0. */
  getsockname(out: { port?: number }): number;
  close(): void;
}

/**
 * A bound, non-listening unix socket that all acceptors share. The main thread keeps it open until
 * the process ends. If it closed earlier, a file could get its descriptor's number, and an acceptor
 * would close that file when it ends. Also, libuv would remove the path, even if it were another
 * socket's by then.
 */
export class SocketFile {
  readonly fd: number;
  readonly #path: string;
  readonly #handle: { readonly fd: number };
  readonly #identity: string | undefined;

  /** Throws an OperatorError if the path can't be bound or given to the group. */
  constructor({ path, mode, group }: UnixListen) {
    const handle = (net as typeof net & HandleMaker)._createServerHandle(path, -1, -1);
    if (typeof handle === "number") {
      const code = getSystemErrorName(handle);
      throw explainListenError({ kind: "unix", path }, code, code);
    }
    this.#handle = handle;
    this.fd = handle.fd;
    this.#path = path;
    this.#identity = identityOf(path);
    try {
      if (group !== undefined) chownSync(path, process.getuid!(), groupIdOf(group));
      if (mode !== undefined) chmodSync(path, mode);
    } catch (error) {
      this.remove();
      throw listenError(
        `cannot give ${path} to group ${group}, mode ${mode?.toString(8)}: ${(error as Error).message}`,
      );
    }
  }

  /** Removes the path, unless another server has replaced the socket. */
  remove(): void {
    if (this.#handle.fd < 0 || this.#identity === undefined) return;
    try {
      if (identityOf(this.#path) === this.#identity) unlinkSync(this.#path);
    } catch {
      // After -u, the directory may not be writable. The next server will find a path that no
      // server answers on.
    }
  }
}

function identityOf(path: string): string | undefined {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.dev} ${found.ino}`;
}

/**
 * Binds the address briefly without listening, and returns the port, which is a free one for 0.
 * With several acceptors, each binds the address for itself, and the kernel would let a second
 * server of the same user join them unnoticed. Because the socket does not listen, a client that
 * connects in that moment is refused instead of reset.
 */
export async function probeAddress(host: string, port: number): Promise<number> {
  const { address, family } = await lookup(host);
  const addressType = family === 6 ? 6 : 4;
  const handle = (net as typeof net & HandleMaker)._createServerHandle(address, port, addressType);
  if (typeof handle === "number") throw bindError(handle, address, port);
  const bound: { port?: number } = {};
  const failed = handle.getsockname(bound);
  handle.close();
  if (failed !== 0) throw bindError(failed, address, port);
  return bound.port ?? port;
}

/** Returns the error that node:net reports for listen(). */
function bindError(number: number, address: string, port: number): Error {
  const code = getSystemErrorName(number);
  const message = `listen ${code}: ${getSystemErrorMessage(number)} ${address}:${port}`;
  return Object.assign(new Error(message), { code });
}

function groupIdOf(group: string): number {
  const line = readFileSync("/etc/group", "utf8")
    .split("\n")
    .find((each) => each.startsWith(`${group}:`));
  if (line === undefined) throw new Error(`no such group`);
  return Number(line.split(":")[2]);
}

/** Explanations of errors with a socket's path. */
const PATH_ERRORS: Readonly<Record<string, string>> = {
  EACCES: "no permission for this path: the server's user must be able to write to its directory",
  EPERM: "no permission for this path: the server's user must be able to write to its directory",
  ENOENT: "its directory does not exist: create it first",
  ENOTDIR: "a part of the path is not a directory",
  EROFS: "the file system is read-only",
};

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
  if (code === "EACCES" && listen.kind === "tcp") {
    return listenError(`cannot listen on ${where}: Permission denied (ports below 1024 need root; see -u)`);
  }
  if (listen.kind === "unix") {
    // libuv reports EACCES for both.
    const cause = code === "EACCES" && !existsSync(dirname(listen.path)) ? "ENOENT" : code;
    const explained = PATH_ERRORS[cause];
    if (explained !== undefined) return listenError(`cannot listen on ${where}: ${explained} (${cause})`);
  }
  return listenError(`cannot listen on ${where}: ${message}`);
}
