// One address on which an acceptor listens.

import { createServer, type Server } from "node:net";

export type ListenAddress =
  | { kind: "tcp"; host: string; port: number; reusePort: boolean }
  /** A bound socket that somebody else owns, and that other acceptors may share: it is used and never closed. */
  | { kind: "descriptor"; fd: number };

/** A connection that libuv has accepted and nobody has served yet. */
export interface AcceptedHandle {
  readonly fd: number;
  close(): void;
  /** Fills in the client's address; only sockets of TCP have it. */
  getpeername?(out: { address?: string }): number;
}

interface ListeningHandle {
  readonly fd: number;
  onconnection: (status: number, client: unknown) => void;
  /** Internals of Node's. Without them connections are still taken while the server stops, and closed at once. */
  readStart?(): number;
  readStop?(): number;
}

/** Who hears of what happens. */
export interface ListenerEvents {
  listening(port: number, fd: number): void;
  failed(code: string, message: string): void;
  /** Undefined where a connection could not be accepted. */
  accepted(client: AcceptedHandle | undefined): void;
}

const BACKLOG = 1024;

export class Listener {
  readonly #server: Server;
  /** It listens on a descriptor that it must not close. */
  readonly #sharesDescriptor: boolean;

  constructor(address: ListenAddress, events: ListenerEvents) {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    this.#server = server;
    this.#sharesDescriptor = address.kind === "descriptor";
    server.on("error", (error: NodeJS.ErrnoException) =>
      events.failed(error.code ?? "UNKNOWN", error.message),
    );
    server.on("listening", () => {
      const handle = (server as unknown as { _handle: ListeningHandle })._handle;
      handle.onconnection = (status, client) => {
        const isThere = status === 0 && client !== undefined && client !== null;
        events.accepted(isThere ? (client as AcceptedHandle) : undefined);
      };
      const bound = server.address();
      const port = bound !== null && typeof bound === "object" ? bound.port : 0;
      events.listening(port, handle.fd);
    });
    // In the options Node does not look for the backlog where there is a descriptor.
    if (address.kind === "descriptor") server.listen({ fd: address.fd }, BACKLOG);
    else {
      const { host, port, reusePort } = address;
      server.listen({ host, port, backlog: BACKLOG, reusePort });
    }
  }

  /**
   * A shared descriptor must stay open: closed by one acceptor, its number may belong to a file of the log when the next
   * closes it. But a handle has no way to stop listening other than `close`. It has one to stop reading, after which the
   * event loop no longer looks at the descriptor, and that is all: clients that connect from now on stay in the backlog,
   * for systemd's next start. A handle that was made of a descriptor counts as readable, so that it can be asked to.
   */
  stop(): void {
    if (!this.#sharesDescriptor) {
      this.#server.close();
      return;
    }
    const handle = (this.#server as unknown as { _handle: ListeningHandle | null })._handle;
    if (handle === null) return;
    handle.onconnection = (_status, client) => (client as AcceptedHandle | undefined)?.close();
    handle.readStart?.();
    handle.readStop?.();
  }
}

/** Address and port of a client, or "unix". */
export function peerName(client: AcceptedHandle): string {
  const out: { address?: string; port?: number; family?: string } = {};
  client.getpeername?.(out);
  const { address, port, family } = out;
  if (!address) return "unix";
  return `${family === "IPv6" && !address.startsWith("::ffff:") ? `[${address}]` : address.replace("::ffff:", "")}:${port}`;
}

/** The client's address, "" for a unix socket. */
export function peerAddress(client: AcceptedHandle): string {
  const out: { address?: string } = {};
  client.getpeername?.(out);
  return out.address ?? "";
}
