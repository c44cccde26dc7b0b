// Reads the PROXY headers of connections before anything else reads their bytes. From then on, a
// socket's handle reports the client that the header names as the peer.

import { Socket } from "node:net";
import { type ProxiedPeer, readProxyHeader } from "../../access/proxy-header.ts";
import type { AcceptedHandle } from "./listener.ts";

/** Time limit of a header. */
const HEADER_MS = 5000;

const FAULTS = {
  missing: "it does not begin with a PROXY header",
  wrong: "its PROXY header is malformed",
} as const;

/** The handle of a socket of node:net is internal to Node. */
type HandledSocket = Socket & { _handle: AcceptedHandle | null };
export const handleOf = (socket: Socket): AcceptedHandle | null => (socket as HandledSocket)._handle;

/** Gets the bytes behind the header; undefined if there are none yet. */
type Serve = (bytes: Buffer | undefined) => void;
type OnFailure = (why: string) => void;

export class ProxiedSockets {
  readonly #underWay = new Set<Socket>();
  #isStopping = false;

  /** Closes the connections whose header isn't there yet, and those that come later. */
  stop(): void {
    this.#isStopping = true;
    for (const socket of this.#underWay) socket.destroy();
  }

  /**
   * Reads the header of an accepted connection, then calls `serve`, or closes the connection and
   * calls `onFailure`. While it reads, the event loop has to run.
   */
  readHandle(handle: AcceptedHandle, serve: Serve, onFailure: OnFailure): void {
    const options: object = { handle, allowHalfOpen: true };
    const socket = new Socket(options);
    const detached: Serve = (bytes) => {
      handle.reading = false;
      handle.readStop?.();
      (socket as HandledSocket)._handle = null;
      serve(bytes);
    };
    this.read(socket, detached, onFailure);
  }

  /** Does the same for a socket, which is paused when `serve` is called. */
  read(socket: Socket, serve: Serve, onFailure: OnFailure): void {
    let received: Buffer = Buffer.alloc(0);
    /** Returns false if it was called before. */
    const settle = (): boolean => {
      clearTimeout(timer);
      socket.off("data", onData);
      return this.#underWay.delete(socket);
    };
    const fail = (why: string): void => {
      if (!settle()) return;
      socket.destroy();
      if (!this.#isStopping) onFailure(why);
    };
    const onData = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const header = readProxyHeader(received);
      if (header === "cut") return;
      if (typeof header === "string") fail(FAULTS[header]);
      else if (settle()) {
        socket.pause();
        if (header.peer !== undefined) rename(handleOf(socket)!, header.peer);
        serve(received.length === header.bytes ? undefined : received.subarray(header.bytes));
      }
    };
    const onEnd = (): void => fail("it ended within its PROXY header");
    const timer = setTimeout(() => fail(`its PROXY header took more than ${HEADER_MS / 1000} s`), HEADER_MS);
    this.#underWay.add(socket);
    socket.on("data", onData);
    socket.on("end", onEnd);
    // An error that nothing listens to would end the process.
    socket.on("error", onEnd);
    socket.on("close", onEnd);
    if (this.#isStopping) socket.destroy();
  }
}

/** Makes the handle name another peer than its own. */
function rename(handle: AcceptedHandle, peer: ProxiedPeer): void {
  handle.getpeername = (out) => {
    Object.assign(out, peer);
    return 0;
  };
}
