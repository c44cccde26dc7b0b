// Sockets through node:net, with as little as possible between the kernel and the connection.
//
// All sockets of a thread read into one shared buffer, which the connection uses during the call,
// and one write sends all replies of a turn. Node's default of a new Buffer for every read costs a
// tenth more.

import { type OnReadOpts, Socket } from "node:net";
import type { Connection } from "../connection/connection.ts";
import type { Transport } from "../stream/transport.ts";
import type { ConnectionContext } from "./listener.ts";

// Writes to a socket's handle directly, bypassing the stream machinery of node:net, where Node
// permits it.
//
// For every reply, `socket.write` costs a request object, a callback and a next-tick: about a tenth
// of an acceptor's time. Nearly every write is complete when the call returns, and the handle's own
// method reports that at once. The method is internal to Node. If it is missing or has changed
// shape, replies go through `socket.write`. RUNNERBEAN_STREAM_WRITES=1 in the environment forces
// that too, for tests and for diagnosis.

/** The method of a socket's handle that node:net calls. */
interface WritableHandle {
  writeBuffer(request: object, buffer: Uint8Array): number;
}

interface StreamWrap {
  WriteWrap: new () => WriteRequest;
  streamBaseState: Int32Array;
  kLastWriteWasAsync: number;
}

interface WriteRequest {
  oncomplete?: (status: number) => void;
  /** Keeps the bytes alive until the kernel has them. */
  buffer?: Uint8Array;
}

function internals(): StreamWrap | undefined {
  if (process.env["RUNNERBEAN_STREAM_WRITES"] === "1") return undefined;
  try {
    const binding = (process as NodeJS.Process & { binding(name: string): Partial<StreamWrap> }).binding(
      "stream_wrap",
    );
    const { WriteWrap, streamBaseState, kLastWriteWasAsync } = binding;
    if (typeof WriteWrap !== "function" || typeof kLastWriteWasAsync !== "number") return undefined;
    if (!(streamBaseState instanceof Int32Array)) return undefined;
    return { WriteWrap, streamBaseState, kLastWriteWasAsync };
  } catch {
    return undefined;
  }
}

const wrap = internals();
/**
 * One request object for all writes that complete at once. Only an unfinished write keeps its
 * request.
 */
let request: WriteRequest | undefined;

export const WriteResult = { Done: 0, Pending: 1, Failed: 2, Unavailable: 3 } as const;
export type WriteResult = (typeof WriteResult)[keyof typeof WriteResult];

/**
 * Writes `buffer`. After Pending, the bytes belong to the kernel until `onComplete` is called with
 * a status.
 */
export function directWrite(
  handle: unknown,
  buffer: Uint8Array,
  onComplete: (status: number) => void,
): WriteResult {
  if (wrap === undefined || typeof (handle as Partial<WritableHandle> | null)?.writeBuffer !== "function") {
    return WriteResult.Unavailable;
  }
  request ??= new wrap.WriteWrap();
  const status = (handle as WritableHandle).writeBuffer(request, buffer);
  if (status !== 0) return WriteResult.Failed;
  if (wrap.streamBaseState[wrap.kLastWriteWasAsync] === 0) return WriteResult.Done;
  request.buffer = buffer;
  request.oncomplete = onComplete;
  request = undefined;
  return WriteResult.Pending;
}

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
    { core, onActivity, log, keepAlive, entry, peer, listener, bytes }: ConnectionContext,
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
    // They may pause it again.
    if (bytes !== undefined) opened.onBytes(bytes, bytes.length);
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
