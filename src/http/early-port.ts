// Opens an address of the HTTP side. Ports open before the code behind them is loaded, so that
// early clients wait instead of being refused. Loading takes longer than all else at the start.

import { lookup } from "node:dns/promises";
import { chmodSync } from "node:fs";
import net from "node:net";
import type { Api } from "./api/api.ts";
import type { HttpAddress } from "./http-address.ts";

/** Internals of node:net. */
interface Internals {
  _createServerHandle(host: string, port: number, addressType: number): ServerHandle | number;
}

interface ServerHandle {
  onconnection(error: number, client: { close(): void } | undefined): void;
  /** Returns an error, or 0. */
  listen(backlog: number): number;
  getsockname(out: { port?: number }): number;
  close(...args: readonly unknown[]): void;
}

/** Connections that wait, and as many more in the kernel. */
const BACKLOG = 511;

/**
 * A port that is open before the code behind it is loaded. Its connections wait. For `localhost`,
 * it is open at each address of that name, and one server gets the connections of all: fastify
 * would make another server for the second address, to which no limit and no rule applies.
 */
export class EarlyPort {
  readonly #host: string;
  readonly #handle: ServerHandle;
  readonly #waiting: Parameters<ServerHandle["onconnection"]>[] = [];

  /**
   * Returns undefined if the port can't be opened early, because it is a unix socket, `host` is
   * another name, or the system refuses: the later attempt says why.
   */
  static async open(address: HttpAddress): Promise<EarlyPort | undefined> {
    if ("path" in address) return undefined;
    const { host, port } = address;
    const found = host === "localhost" ? await lookup(host, { all: true }).catch(() => []) : [];
    const [first = host, ...others] = found.map((each) => each.address);
    const handle = listenAt(first, port);
    if (handle === undefined) return undefined;
    const early = new EarlyPort(first, handle);
    const bound: { port?: number } = {};
    handle.getsockname(bound);
    // As with fastify, one of them is enough.
    for (const other of new Set(others)) early.#join(listenAt(other, bound.port ?? port));
    return early;
  }

  private constructor(host: string, handle: ServerHandle) {
    this.#host = host;
    this.#handle = handle;
    handle.onconnection = (error, client) => {
      if (this.#waiting.length < BACKLOG) this.#waiting.push([error, client]);
      else client?.close();
    };
  }

  /** Lets another address serve as long as the first one, by the same server. */
  #join(other: ServerHandle | undefined): void {
    if (other === undefined) return;
    const handle = this.#handle;
    other.onconnection = (error, client) => handle.onconnection(error, client);
    const close = handle.close.bind(handle);
    handle.close = (...args) => {
      other.close();
      close(...args);
    };
  }

  /** Options of `listen` of fastify, whose server takes the port over. */
  get asAddress(): { readonly host: string; readonly handle: object } {
    return { host: this.#host, handle: this.#handle };
  }

  /** Hands the waiting connections to the server that has taken the port over. */
  release(): void {
    for (const connection of this.#waiting) this.#handle.onconnection(...connection);
  }
}

/** Returns undefined if `host` is no address, or if the system refuses. */
function listenAt(host: string, port: number): ServerHandle | undefined {
  const type = net.isIP(host);
  if (type === 0) return undefined;
  const handle = (net as typeof net & Internals)._createServerHandle(host, port, type);
  if (typeof handle === "number") return undefined;
  if (handle.listen(BACKLOG) === 0) return handle;
  handle.close();
  return undefined;
}

/** An address with its application. */
export interface HttpListener {
  readonly api: Api;
  readonly address: HttpAddress;
  readonly isSecure: boolean;
}

/** Listens with an application that is ready, on the early port if there is one. */
export async function listen({ api, address }: HttpListener, opened?: EarlyPort): Promise<string> {
  const early = opened ?? (await EarlyPort.open(address));
  // A copy, because fastify adds a function to what it gets, and addresses go to other threads.
  const where = await api.listen({ ...address, ...early?.asAddress });
  early?.release();
  // Access to the socket means full control, so only the server's user may open it.
  if ("path" in address) chmodSync(address.path, 0o600);
  return where;
}
