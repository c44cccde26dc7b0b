// A listening socket of an acceptor.

import { createServer, type Server } from "node:net";
import type { Entry } from "../admission/admission-control.ts";
import type { KeepAlive } from "../admission/listener-policy.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";

export type ListenAddress =
  | { kind: "tcp"; host: string; port: number; reusePort: boolean }
  /**
   * A bound socket that belongs to another owner and that other acceptors may share. It is used but
   * never closed.
   */
  | { kind: "descriptor"; fd: number };

/** The address of a client, as a handle fills it in. */
interface PeerName {
  address?: string;
  port?: number;
  family?: string;
}

/** A connection that libuv has accepted and that is not served yet: its unread stream. */
export interface AcceptedHandle {
  readonly fd: number;
  setNoDelay?(on: boolean): void;
  setKeepAlive?(on: boolean, delaySeconds: number, intervalSeconds?: number, count?: number): void;
  close(): void;
  /** Fills in the client's address. Only TCP sockets have it. */
  getpeername?(out: PeerName): number;
  /** Internals of Node: whether it is being read. */
  reading?: boolean;
  readStop?(): number;
}

interface ListeningHandle {
  readonly fd: number;
  onconnection: (status: number, client: unknown) => void;
  /**
   * Internals of Node. Without them, connections are still accepted while the server stops, and
   * closed at once.
   */
  readStart?(): number;
  readStop?(): number;
}

/** Receives the listener's events. */
interface ListenerEvents {
  listening(port: number, fd: number): void;
  failed(code: string, message: string): void;
  /** `client` is undefined if the connection could not be accepted. */
  accepted(client: AcceptedHandle | undefined): void;
}

const BACKLOG = 1024;

export class Listener {
  readonly #server: Server;
  /** Whether it listens on a descriptor that it must not close. */
  readonly #sharesDescriptor: boolean;

  constructor(address: ListenAddress, events: ListenerEvents) {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    this.#server = server;
    this.#sharesDescriptor = address.kind === "descriptor";
    server.on("error", (error: NodeJS.ErrnoException) =>
      events.failed(error.code ?? "UNKNOWN", error.message),
    );
    server.on("listening", () => {
      const handle = (server as Server & { _handle: ListeningHandle })._handle;
      handle.onconnection = (status, client) => {
        const isThere = status === 0 && client !== undefined && client !== null;
        events.accepted(isThere ? (client as AcceptedHandle) : undefined);
      };
      const bound = server.address();
      const port = bound !== null && typeof bound === "object" ? bound.port : 0;
      events.listening(port, handle.fd);
    });
    // Given a descriptor, Node ignores a backlog in the options.
    if (address.kind === "descriptor") server.listen({ fd: address.fd }, BACKLOG);
    else {
      const { host, port, reusePort } = address;
      server.listen({ host, port, backlog: BACKLOG, reusePort });
    }
  }

  /**
   * Stops listening.
   *
   * A shared descriptor has to stay open: if one acceptor closed it, its number might belong to a
   * log file by the time the next acceptor closes it. A handle can stop listening only with
   * `close`, but it can stop reading. The event loop then no longer watches the descriptor, and
   * clients that connect from now on stay in the backlog, for systemd's next start. A handle made
   * from a descriptor counts as readable, so these calls are permitted.
   */
  stop(): void {
    if (!this.#sharesDescriptor) {
      this.#server.close();
      return;
    }
    const handle = (this.#server as Server & { _handle: ListeningHandle | null })._handle;
    if (handle === null) return;
    handle.onconnection = (_status, client) => (client as AcceptedHandle | undefined)?.close();
    handle.readStart?.();
    handle.readStop?.();
  }
}

/** Returns the address and port of a client, or "unix". */
export function peerName(client: AcceptedHandle): string {
  const out: PeerName = {};
  client.getpeername?.(out);
  const { address, port, family } = out;
  if (!address) return "unix";
  return `${family === "IPv6" && !address.startsWith("::ffff:") ? `[${address}]` : address.replace("::ffff:", "")}:${port}`;
}

/**
 * Returns the client's address, or "" for a unix socket; undefined if the system no longer knows
 * it, because the client has reset the connection.
 */
export function peerAddress(client: AcceptedHandle): string | undefined {
  const out: PeerName = {};
  const failed = client.getpeername?.(out) ?? 0;
  return failed === 0 ? (out.address ?? "") : undefined;
}

// Events that transports report to their thread.

export interface ConnectionLog {
  accepted(descriptor: number): void;
  closed(descriptor: number): void;
  /**
   * A connection has left for another acceptor or come from one. Its descriptor there is different.
   */
  left(descriptor: number): void;
  arrived(descriptor: number): void;
  /** A connection was closed because all slots are taken. */
  noSlot(): void;
}

// The context that a transport gets to serve an accepted connection.

export interface ConnectionContext {
  readonly core: AcceptorCore;
  /** To be called whenever bytes or an end have arrived. */
  readonly onActivity: () => void;
  readonly log: ConnectionLog;
  readonly keepAlive: KeepAlive;
  /** The connection's admission; undefined if every client is accepted without a filter. */
  readonly entry: Entry | undefined;
  /** Address and port of the client, or "unix". */
  readonly peer?: string | undefined;
  /** Index of its listener among those of the server. */
  readonly listener?: number | undefined;
  /** Bytes of the client that were read with its PROXY header. */
  readonly bytes?: Buffer | undefined;
}
