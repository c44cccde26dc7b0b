// Events of the sockets of a host, handled one at a time in a drawn order.

import type { AcceptorLoop } from "../../../src/acceptor/acceptor-loop.ts";
import type { ServerParts } from "./server-parts.ts";

export class SocketEvents {
  readonly #server: ServerParts;

  constructor(server: ServerParts) {
    this.#server = server;
  }

  /** The events of the sockets of a host, all or some. Returns how many told of clients. */
  moveAllBytes(
    acceptors: readonly number[],
    loop: AcceptorLoop,
    wake: () => void,
    isReading: boolean,
  ): number {
    let told = 0;
    for (const acceptor of acceptors) told += this.#moveBytes(acceptor, loop, wake, isReading);
    return told;
  }

  #moveBytes(acceptor: number, loop: AcceptorLoop, wake: () => void, isReading: boolean): number {
    let events = 0;
    let told = 0;
    while (this.hasSocketEvent(acceptor) && !(events > 0 && this.#server.heldUp())) {
      if (this.#handleSocketEvent(acceptor)) {
        wake();
        told++;
      } else if (!isReading || loop.sockets === undefined) wake();
      events++;
    }
    // A read barrier must not be answered while some sockets are unread.
    const { barriers } = this.#server.acceptors[acceptor]!;
    if (isReading && barriers.hasWork && !this.hasSocketEvent(acceptor)) barriers.haveRead();
    return told;
  }

  hasSocketEvent(acceptor: number): boolean {
    return (
      this.#server.toStop.has(acceptor) || this.#server.sockets[acceptor]!.some((socket) => socket.hasEvent)
    );
  }

  /** Returns whether it told of a client. */
  #handleSocketEvent(acceptor: number): boolean {
    if (this.#server.toStop.delete(acceptor)) {
      this.#server.acceptors[acceptor]!.endAll();
      return true;
    }
    const sockets = this.#server.sockets[acceptor]!;
    const ready = sockets.filter((socket) => socket.hasEvent);
    const socket = this.#server.random.pick(ready)!;
    const tells = socket.handleEvent(
      this.#server.holdUps > 0 && this.#server.random.chance(0.3)
        ? this.#server.random.between(1, 40)
        : 65536,
    );
    if (socket.isClosed) sockets.splice(sockets.indexOf(socket), 1);
    return tells;
  }
}
