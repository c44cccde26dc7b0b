// HTTP port that opens before the code behind it is loaded, so that early clients wait instead of
// being refused. Loading that code takes longer than everything else at the start.

import net from "node:net";

/** Internals of node:net. */
interface Internals {
  _createServerHandle(host: string, port: number, addressType: number): ServerHandle | number;
}

interface ServerHandle {
  onconnection(error: number, client: { close(): void } | undefined): void;
  /** Returns an error, or 0. */
  listen(backlog: number): number;
  close(): void;
}

/** Connections that wait, and as many more in the kernel. */
const BACKLOG = 511;

/** A port that is open before the code behind it is loaded. Its connections wait. */
export class EarlyPort {
  readonly #handle: ServerHandle;
  readonly #waiting: Parameters<ServerHandle["onconnection"]>[] = [];

  /**
   * Returns undefined if the port can't be opened early, because `host` is a name or the system
   * refuses: the later attempt says why.
   */
  static open(host: string, port: number): EarlyPort | undefined {
    const type = net.isIP(host);
    if (type === 0) return undefined;
    const handle = (net as typeof net & Internals)._createServerHandle(host, port, type);
    if (typeof handle === "number") return undefined;
    if (handle.listen(BACKLOG) === 0) return new EarlyPort(handle);
    handle.close();
    return undefined;
  }

  private constructor(handle: ServerHandle) {
    this.#handle = handle;
    handle.onconnection = (error, client) => {
      if (this.#waiting.length < BACKLOG) this.#waiting.push([error, client]);
      else client?.close();
    };
  }

  /** Option of `listen` of node:net, which takes the port over. */
  get asAddress(): object {
    return { handle: this.#handle };
  }

  /** Hands the waiting connections to the server that has taken the port over. */
  release(): void {
    for (const connection of this.#waiting) this.#handle.onconnection(...connection);
  }
}
