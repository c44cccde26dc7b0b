// HTTP behind proxies that name their clients: reads the PROXY header of a connection before Node's
// server sees the connection.

import { peerAddress } from "../acceptor/sockets/listener.ts";
import { handleOf, ProxiedSockets } from "../acceptor/sockets/proxied-sockets.ts";
import { AddressList } from "../access/client-address.ts";
import type { Api } from "./api/api.ts";

type Socket = Parameters<ProxiedSockets["read"]>[0];

export class ProxiedHttp {
  readonly #sockets = new ProxiedSockets();
  readonly #onFailure: (why: string) => void;
  #proxies: AddressList | undefined;

  /** `onFailure` is called for each connection that is closed for its header. */
  constructor(proxyFrom: readonly string[] | undefined, onFailure: (why: string) => void) {
    this.#onFailure = onFailure;
    this.configure(proxyFrom);
  }

  /** Replaces the proxies for new connections. */
  configure(proxyFrom: readonly string[] | undefined): void {
    this.#proxies = proxyFrom === undefined ? undefined : new AddressList(proxyFrom);
  }

  /** Must be called once all other listeners for connections are added. */
  addTo({ server }: Api): void {
    const listeners = server.listeners("connection");
    server.removeAllListeners("connection");
    server.on("connection", (socket: Socket) => {
      const serve = (): void => {
        for (const listener of listeners) listener.call(server, socket);
      };
      // Asks the handle: the socket would remember the answer.
      const handle = handleOf(socket);
      const address = handle === null ? "" : peerAddress(handle);
      // The client has reset the connection, and nobody knows whose requests it brought.
      if (address === undefined) socket.destroy();
      else if (this.#proxies?.includes(address) !== true) serve();
      else this.#sockets.read(socket, (bytes) => this.#serve(socket, bytes, serve), this.#onFailure);
    });
  }

  #serve(socket: Socket, bytes: Buffer | undefined, serve: () => void): void {
    if (bytes !== undefined) socket.unshift(bytes);
    serve();
    // Node's TLS takes the bytes in the next tick. A socket that flows before would drop them.
    process.nextTick(() => socket.resume());
  }

  stop(): void {
    this.#sockets.stop();
  }
}
