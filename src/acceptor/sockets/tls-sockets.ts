// Sockets with TLS: node:tls over libuv, whatever moves the bytes of the others.

import { Socket } from "node:net";
import type { Server, TLSSocket } from "node:tls";
import type { TlsPolicy } from "../admission/listener-policy.ts";
import type { Connection } from "../connection/connection.ts";
import type { Transport } from "../replies/transport.ts";
import type { Serving } from "./serving.ts";
import { contextOf, createTlsServer, namesOf, serverOptionsOf } from "./tls-context.ts";

/** What is done with the names of a client's certificate: false closes the connection. */
type Identify = (names: readonly string[]) => boolean;

interface Handshake {
  readonly serving: Serving;
  /** Undefined where a certificate does not tell who the client is. */
  readonly identify: Identify | undefined;
}

export class TlsSockets {
  readonly #server: Server;
  readonly #onFailure: (why: string) => void;
  /** Connections whose handshake is under way, by what node:tls makes of them. */
  readonly #underWay = new WeakMap<Socket, Handshake>();
  #stopping = false;

  /** `onFailure` hears of handshakes that failed. */
  constructor(policy: TlsPolicy, onFailure: (why: string) => void) {
    this.#onFailure = onFailure;
    this.#server = createTlsServer({
      ...serverOptionsOf(policy),
      allowHalfOpen: true,
      // Clients speak first, and nobody here wants to know a host's or a protocol's name.
      ALPNProtocols: [],
    });
    this.#server.on("secureConnection", (socket) => this.#secured(socket));
    this.#server.on("tlsClientError", (error, socket) => {
      this.#failed(rawOf(socket), error.message);
      socket.destroy();
    });
  }

  /** Another certificate for who comes from now on. Open connections stay. */
  configure(policy: TlsPolicy): void {
    this.#server.setSecureContext(contextOf(policy));
  }

  /** Nobody is served any more whose handshake is done from now on. */
  stop(): void {
    this.#stopping = true;
  }

  /** Takes over an accepted handle, and serves it when its handshake is done. */
  serve(handle: unknown, serving: Serving, identify: Identify | undefined): void {
    const raw = new Socket({ handle, allowHalfOpen: true } as ConstructorParameters<typeof Socket>[0]);
    raw.setNoDelay(true);
    const { delayMs, intervalMs, count } = serving.keepAlive;
    raw.setKeepAlive(true, delayMs, intervalMs, count);
    const descriptor = (handle as { readonly fd: number }).fd;
    serving.log.accepted(descriptor);
    // Also where the handshake fails, and after every other end.
    raw.on("close", () => serving.log.closed(descriptor));
    raw.on("error", () => raw.destroy());
    this.#underWay.set(raw, { serving, identify });
    this.#server.emit("connection", raw);
  }

  #failed(raw: Socket | undefined, why: string): void {
    if (raw === undefined || !this.#underWay.delete(raw)) return;
    this.#onFailure(why);
    raw.destroy();
  }

  #secured(socket: TLSSocket): void {
    // node:tls has let go of it, and an error that nobody hears of would end the process.
    socket.on("error", () => socket.destroy());
    const raw = rawOf(socket);
    const handshake = raw === undefined ? undefined : this.#underWay.get(raw);
    if (raw === undefined || handshake === undefined || this.#stopping) {
      socket.destroy();
      return;
    }
    this.#underWay.delete(raw);
    const { serving, identify } = handshake;
    if (identify !== undefined && !identify(namesOf(socket.getPeerCertificate()))) {
      socket.destroy();
      serving.onActivity();
    } else TlsTransport.serve(socket, raw, serving);
  }
}

/** The socket beneath: kept internal by Node. */
function rawOf(socket: TLSSocket): Socket | undefined {
  return (socket as unknown as { _parent?: Socket })._parent;
}

class TlsTransport implements Transport {
  readonly #socket: TLSSocket;
  /** The event loop has something to do that no descriptor tells of. */
  readonly #onWork: () => void;
  readonly descriptor: number;
  #onDrain: () => void = () => {};

  static serve(
    socket: TLSSocket,
    raw: Socket,
    { core, entry, peer, listener, onActivity, log }: Serving,
  ): void {
    const handle = (raw as unknown as { _handle?: { readonly fd?: number } | null })._handle;
    const transport = new TlsTransport(socket, handle?.fd ?? -1, onActivity);
    const connection: Connection | undefined = core.connect(
      entry?.wrap(transport) ?? transport,
      entry?.gate,
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
    // As with net-transport.ts: the end is taken before what others send after it.
    socket.on("error", gone);
    // The socket beneath closes first, and whoever hears of that finds the connection counted no more: a stop waits for the last one.
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
