// Sockets through node:net, with as little as possible between the kernel and the connection.
//
// All sockets of a thread read into one shared buffer, which the connection uses during the call,
// and one write sends all replies of a turn. Node's default of a new Buffer for every read costs a
// tenth more.

import { type OnReadOpts, Socket } from "node:net";
import type { Connection } from "../connection/connection.ts";
import { directWrite, WriteResult } from "../replies/direct-write.ts";
import type { Transport } from "../replies/transport.ts";
import type { ConnectionContext } from "./connection-context.ts";

interface Handle {
  readonly fd?: number;
}

export class NetTransport implements Transport {
  readonly #socket: Socket;
  /** Called when the socket moves no more bytes. */
  #onGone: () => void = () => {};
  /** Bytes written past the stream that the kernel has not taken. */
  #directBytes = 0;
  #onDrain: () => void = () => {};

  /**
   * Takes over an accepted handle and serves it. Calls `onActivity` whenever bytes or an end have
   * arrived.
   */
  static serve(
    handle: unknown,
    { core, onActivity, log, keepAlive, entry, peer, listener }: ConnectionContext,
    readBuffer: Buffer,
  ): void {
    let connection: Connection | undefined;
    const onread: OnReadOpts = {
      buffer: readBuffer,
      callback: (length) => {
        connection!.onBytes(readBuffer, length);
        onActivity();
        return true;
      },
    };
    const options = { handle, onread, allowHalfOpen: true } as ConstructorParameters<typeof Socket>[0];
    const socket = new Socket(options);
    const transport = new NetTransport(socket);
    connection = core.connect(entry?.wrap(transport) ?? transport, entry?.filter, peer, listener);
    if (connection === undefined) {
      log.noSlot();
      socket.destroy();
      return;
    }
    const opened = connection;
    const descriptor = transport.descriptor;
    log.accepted(descriptor);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, keepAlive.delayMs, keepAlive.intervalMs, keepAlive.count);
    socket.on("end", () => {
      opened.onEnd();
      onActivity();
    });
    transport.#onDrain = () => {
      opened.onDrain();
      onActivity();
    };
    transport.#onGone = () => {
      core.disconnect(opened);
      onActivity();
    };
    // Resets and broken pipes are not reported. But the end has to be processed before anything
    // that other clients send afterwards, and "close" comes some turns later.
    socket.on("error", () => transport.#onGone());
    socket.on("close", () => {
      core.disconnect(opened);
      log.closed(descriptor);
      onActivity();
    });
    socket.resume();
    onActivity();
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  get #handle(): Handle | null | undefined {
    return (this.#socket as Socket & { _handle?: Handle | null })._handle;
  }

  get descriptor(): number {
    return this.#handle?.fd ?? -1;
  }

  get pendingBytes(): number {
    return this.#directBytes + this.#socket.writableLength;
  }

  send(buffer: Uint8Array, length: number): boolean {
    const bytes = length === buffer.length ? buffer : buffer.subarray(0, length);
    // Bytes that the stream still holds have to go first.
    if (this.#socket.writableLength === 0) {
      const result = directWrite(this.#handle, bytes, (status) => this.#written(length, status));
      if (result === WriteResult.Done) return true;
      if (result === WriteResult.Pending) {
        this.#directBytes += length;
        return false;
      }
      if (result === WriteResult.Failed) {
        this.#onGone();
        return true;
      }
    }
    this.#socket.write(bytes, this.#streamWritten);
    return this.#socket.writableLength === 0;
  }

  /** The stream emits no "drain" after a write that it considered small. */
  readonly #streamWritten = (): void => {
    if (!this.#socket.destroyed && this.pendingBytes === 0) this.#onDrain();
  };

  #written(length: number, status: number): void {
    this.#directBytes -= length;
    if (status !== 0) this.#onGone();
    else if (this.pendingBytes === 0) this.#onDrain();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  end(): void {
    this.#socket.end(() => this.#socket.destroy());
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
