// Sockets with TLS: node:tls over libuv, even if io_uring moves the bytes of all other sockets.

import { Socket } from "node:net";
import type { Server, TLSSocket } from "node:tls";
import type { TlsPolicy } from "../admission/listener-policy.ts";
import type { Connection } from "../connection/connection.ts";
import type { Transport } from "../stream/transport.ts";
import type { ConnectionContext } from "./listener.ts";
import { contextOf, createTlsServer, namesOf, serverOptionsOf } from "./tls-context.ts";

/**
 * Authenticates a client by the names in its certificate. A result of false closes the connection.
 */
type Identify = (names: readonly string[]) => boolean;

/** Codes of OpenSSL for a first message that isn't TLS. */
const NOT_TLS: ReadonlySet<string> = new Set(["ERR_SSL_WRONG_VERSION_NUMBER", "ERR_SSL_HTTP_REQUEST"]);
const TLS_REQUIRED = "TLS_REQUIRED\r\n";

interface Handshake {
  readonly context: ConnectionContext;
  /** Undefined if clients don't authenticate by certificate. */
  readonly identify: Identify | undefined;
}

export class TlsSockets {
  readonly #server: Server;
  readonly #onFailure: (why: string) => void;
  /** Connections in a handshake, by the raw socket below node:tls. */
  readonly #underWay = new WeakMap<Socket, Handshake>();
  #stopping = false;

  /** `onFailure` is called for failed handshakes. */
  constructor(policy: TlsPolicy, onFailure: (why: string) => void) {
    this.#onFailure = onFailure;
    this.#server = createTlsServer({
      ...serverOptionsOf(policy),
      allowHalfOpen: true,
      // Clients speak first, and the server has no use for a host or protocol name.
      ALPNProtocols: [],
    });
    this.#server.on("secureConnection", (socket) => this.#secured(socket));
    this.#server.on("tlsClientError", (error, socket) => {
      const raw = rawOf(socket);
      const isTls = !NOT_TLS.has((error as NodeJS.ErrnoException).code ?? "");
      // node:tls closes the socket after this event.
      if (!isTls) raw?.write(TLS_REQUIRED);
      this.#failed(raw, isTls ? error.message : "the client does not speak TLS");
      socket.destroy();
    });
  }

  /** Replaces the certificate for new connections. Open connections stay. */
  configure(policy: TlsPolicy): void {
    this.#server.setSecureContext(contextOf(policy));
  }

  /** Serves no connection whose handshake ends after this call. */
  stop(): void {
    this.#stopping = true;
  }

  /** Takes over an accepted handle and serves it after its handshake. */
  serve(handle: unknown, context: ConnectionContext, identify: Identify | undefined): void {
    const raw = new Socket({ handle, allowHalfOpen: true } as ConstructorParameters<typeof Socket>[0]);
    raw.setNoDelay(true);
    const { delayMs, intervalMs, count } = context.keepAlive;
    raw.setKeepAlive(true, delayMs, intervalMs, count);
    const descriptor = (handle as { readonly fd: number }).fd;
    context.log.accepted(descriptor);
    // This comes after a failed handshake, too, and after every other end.
    raw.on("close", () => context.log.closed(descriptor));
    raw.on("error", () => raw.destroy());
    this.#underWay.set(raw, { context, identify });
    if (context.bytes !== undefined) raw.unshift(context.bytes);
    this.#server.emit("connection", raw);
  }

  #failed(raw: Socket | undefined, why: string): void {
    if (raw === undefined || !this.#underWay.delete(raw)) return;
    this.#onFailure(why);
    raw.destroy();
  }

  #secured(socket: TLSSocket): void {
    // node:tls has detached from the socket, and an unhandled error would end the process.
    socket.on("error", () => socket.destroy());
    const raw = rawOf(socket);
    const handshake = raw === undefined ? undefined : this.#underWay.get(raw);
    if (raw === undefined || handshake === undefined || this.#stopping) {
      socket.destroy();
      return;
    }
    this.#underWay.delete(raw);
    const { context, identify } = handshake;
    if (identify !== undefined && !identify(namesOf(socket.getPeerCertificate()))) {
      socket.destroy();
      context.onActivity();
    } else TlsTransport.serve(socket, raw, context);
  }
}

/** Returns the socket below. The property is internal to Node. */
function rawOf(socket: TLSSocket): Socket | undefined {
  return (socket as TLSSocket & { _parent?: Socket })._parent;
}

class TlsTransport implements Transport {
  readonly #socket: TLSSocket;
  /** Called when the event loop has work that no descriptor announces. */
  readonly #onWork: () => void;
  readonly descriptor: number;
  #onDrain: () => void = () => {};

  static serve(
    socket: TLSSocket,
    raw: Socket,
    { core, entry, peer, listener, onActivity, log }: ConnectionContext,
  ): void {
    const handle = (raw as Socket & { _handle?: { readonly fd?: number } | null })._handle;
    const transport = new TlsTransport(socket, handle?.fd ?? -1, onActivity);
    const connection: Connection | undefined = core.connect(
      entry?.wrap(transport) ?? transport,
      entry?.filter,
      peer,
      listener,
    );
    if (connection === undefined) {
      log.noSlot();
      socket.destroy();
      return;
    }
    socket.on("data", (chunk: Buffer) => {
      connection.onBytes(chunk, chunk.length);
      onActivity();
    });
    socket.on("end", () => {
      connection.onEnd();
      onActivity();
    });
    transport.#onDrain = () => {
      connection.onDrain();
      onActivity();
    };
    const gone = (): void => {
      core.disconnect(connection);
      onActivity();
    };
    // As in net-transport.ts: process the end before anything that other clients send afterwards.
    socket.on("error", gone);
    // The raw socket closes first. Its other listeners have to find the connection uncounted: a
    // stop waits for the last one.
    raw.prependListener("close", gone);
    onActivity();
  }

  private constructor(socket: TLSSocket, descriptor: number, onWork: () => void) {
    this.#socket = socket;
    this.#onWork = onWork;
    this.descriptor = descriptor;
  }

  get pendingBytes(): number {
    return this.#socket.writableLength;
  }

  send(buffer: Uint8Array, length: number): boolean {
    const bytes = length === buffer.length ? buffer : buffer.subarray(0, length);
    this.#socket.write(bytes, this.#written);
    this.#onWork();
    return this.#socket.writableLength === 0;
  }

  readonly #written = (): void => {
    this.#onWork();
    if (!this.#socket.destroyed && this.pendingBytes === 0) this.#onDrain();
  };

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
    this.#onWork();
  }

  end(): void {
    this.#socket.end(() => this.destroy());
    this.#onWork();
  }

  destroy(): void {
    this.#socket.destroy();
    this.#onWork();
  }
}
