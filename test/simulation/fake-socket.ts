// A socket without a network: the server's side is a Transport, the client's side writes, reads, stalls and vanishes.

import assert from "node:assert/strict";
import type { AcceptorCore } from "../../src/acceptor/acceptor-core.ts";
import type { Connection } from "../../src/acceptor/connection.ts";
import type { MovedConnection } from "../../src/acceptor/moved-connection.ts";
import type { Departure, HandedOver, Transport } from "../../src/acceptor/transport.ts";

/** Bytes that the server handed over and the client has not read. */
interface Unread {
  /** The server's own buffer: it must leave it alone until it is read. */
  readonly buffer: Uint8Array;
  readonly copy: Uint8Array;
  length: number;
  from: number;
}

/** One read buffer for all connections, as in src/acceptor/acceptor-thread.ts: its bytes are valid during the call only. */
const readBuffer = new Uint8Array(64 * 1024);
const SPOILED = 0xa5;
let sockets = 0;

export class FakeSocket implements Transport, Departure {
  /** A number of its own. */
  readonly descriptor: number = ++sockets;
  /** The client reads at once what comes; otherwise it reads when `read` is called. */
  readsAtOnce = true;
  /** Told of every reply, or part of one, when it joins the connection's output: it may have to wait there for the log. */
  onAnswered: ((bytes: Uint8Array) => void) | undefined;
  /** Told of everything that the server hands over, whenever the client may read it. */
  onSent: ((bytes: Uint8Array) => void) | undefined;
  /** Told when the server has sent its last byte and closes. */
  onEnding: (() => void) | undefined;
  /** Told when the client may see that the server has closed. */
  onEndVisible: (() => void) | undefined;
  /** Server closed the connection, and the client has read everything before that. */
  ended = false;
  /** The client may see that the server has closed. */
  endVisible = false;
  /** The client is gone: what the server writes is lost, and tells it so. */
  vanished = false;
  /** Everything the client has read and nobody has taken. */
  #received: Uint8Array[] = [];
  readonly #unread: Unread[] = [];
  #unreadBytes = 0;
  readonly #sent: Uint8Array[] = [];
  #finSent = false;
  #finSeen = false;
  #paused = false;
  #drainDue = false;
  #endWanted = false;
  #closeDue = false;
  #failDue = false;
  #failed = false;
  #closed = false;
  /** Bytes that the server has read. */
  deliveredBytes = 0;
  #core: AcceptorCore;
  #connection: Connection | undefined;

  constructor(core: AcceptorCore) {
    this.#core = core;
  }

  // --- the server's side ------------------------------------------------------------------------------------------

  /** Its client closed without reading all; told when what it had sent has been read. */
  #breaks = false;

  /** Takes the place of an accept. */
  open(): void {
    this.#connection = this.#core.connect(this);
    assert.ok(this.#connection !== undefined, "there is a slot for one more connection");
    this.#watchOutput(this.#connection.outbox);
  }

  #watchOutput(outbox: Connection["outbox"]): void {
    const append = outbox.append.bind(outbox);
    outbox.append = (source, at, length) => {
      this.onAnswered?.(source.subarray(at, at + length));
      append(source, at, length);
    };
    const appendBody = outbox.appendBody.bind(outbox);
    outbox.appendBody = (bodies, handle, offset, length) => {
      const part = new Uint8Array(length);
      bodies.read(handle, offset, part, 0, length);
      this.onAnswered?.(part);
      appendBody(bodies, handle, offset, length);
    };
  }

  get slot(): number {
    return this.#connection!.slot;
  }

  get pendingBytes(): number {
    return this.#unreadBytes;
  }

  send(buffer: Uint8Array, length: number): boolean {
    assert.ok(!this.#closed && !this.#endWanted, "nothing is sent after the end");
    if (this.vanished) {
      this.#closeDue = true;
      return true;
    }
    if (this.#failDue || this.#failed) return true;
    this.onSent?.(buffer.subarray(0, length));
    if (this.readsAtOnce && this.#unreadBytes === 0) {
      this.#received.push(buffer.slice(0, length));
      return true;
    }
    this.#unread.push({ buffer, copy: buffer.slice(0, length), length, from: 0 });
    this.#unreadBytes += length;
    return false;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
  }

  end(): void {
    this.#endWanted = true;
    if (!this.vanished) this.onEnding?.();
    if (this.#unreadBytes === 0) this.#close();
  }

  destroy(): void {
    this.#unread.length = 0;
    this.#unreadBytes = 0;
    this.#close();
  }

  #close(): void {
    this.#closeDue = true;
    this.ended = true;
    if (this.endVisible || this.vanished) return;
    this.endVisible = true;
    this.onEndVisible?.();
  }

  // --- a move to another acceptor -----------------------------------------------------------------------------------

  /** Set while nothing is read because its connection is about to move. */
  #onReady: (() => void) | undefined;
  #isLeaving = false;
  /** Between two acceptors. */
  #isAway = false;

  get departure(): Departure | undefined {
    return this;
  }

  begin(onReady: () => void): void {
    assert.equal(this.#unreadBytes, 0, "a connection moves when its client has got everything");
    this.#isLeaving = true;
    this.#onReady = onReady;
  }

  cancel(): void {
    this.#isLeaving = false;
  }

  complete(): HandedOver | undefined {
    if (this.#closeDue || this.#failDue || (this.#finSent && this.#sent.length === 0)) return undefined;
    // A receive that was under way.
    const [bytes] = this.#sent;
    if (bytes !== undefined) {
      this.#sent.shift();
      this.deliveredBytes += bytes.length;
    }
    this.#isLeaving = false;
    this.#isAway = true;
    return { descriptor: this.descriptor, bytes };
  }

  /** Its connection is at another acceptor now. */
  land(core: AcceptorCore, moved: MovedConnection, onLanded: () => void): void {
    this.#isAway = false;
    this.#core = core;
    this.#connection = core.land(moved, this);
    this.#watchOutput(this.#connection.outbox);
    onLanded();
    if (moved.bytes !== undefined) this.#connection.onBytes(moved.bytes, moved.bytes.length);
  }

  /** Whether the event loop of the server has something to do for this socket. */
  get hasEvent(): boolean {
    if (this.#isAway) return false;
    if (this.#isLeaving) return this.#onReady !== undefined;
    if (this.#closed || this.#connection === undefined || (this.#failed && !this.#closeDue)) return false;
    return (
      this.#closeDue ||
      (this.#breaks && this.#sent.length === 0) ||
      this.#failDue ||
      this.#drainDue ||
      (!this.#paused && !this.#endWanted && (this.#sent.length > 0 || (this.#finSent && !this.#finSeen)))
    );
  }

  /** Handles one event, with at most `bytesMax` bytes if it is a read. */
  /** Returns whether it was one that tells of the client: not if what was sent has been taken. */
  handleEvent(bytesMax: number): boolean {
    const connection = this.#connection!;
    const onReady = this.#onReady;
    if (onReady !== undefined) {
      this.#onReady = undefined;
      onReady();
      return false;
    }
    const isDrain = this.#drainDue && !this.#closeDue && !this.#failDue;
    if (this.#closeDue || (this.#breaks && this.#sent.length === 0)) {
      this.#closed = true;
      this.#core.disconnect(connection);
    } else if (this.#failDue) {
      this.#failDue = false;
      this.#failed = true;
      this.#core.disconnect(connection);
    } else if (this.#drainDue) {
      this.#drainDue = false;
      connection.onDrain();
    } else if (this.#sent.length > 0) {
      this.#read(connection, Math.min(bytesMax, readBuffer.length));
    } else {
      this.#finSeen = true;
      connection.onEnd();
      // A client that closed, and did not only half-close, is found out when something is written to it, or at last now.
      if (this.vanished) this.#closeDue = true;
    }
    return !isDrain;
  }

  #read(connection: Connection, bytesMax: number): void {
    let length = 0;
    while (this.#sent.length > 0 && length < bytesMax) {
      const first = this.#sent[0]!;
      const part = Math.min(first.length, bytesMax - length);
      readBuffer.set(first.subarray(0, part), length);
      length += part;
      if (part === first.length) this.#sent.shift();
      else this.#sent[0] = first.subarray(part);
    }
    this.deliveredBytes += length;
    connection.onBytes(readBuffer, length);
    readBuffer.fill(SPOILED, 0, length);
  }

  /** The server has stopped reading, and will not see an end before it reads on. */
  get isPaused(): boolean {
    return this.#paused;
  }

  /** The server has seen that the client will send no more. */
  get isEndSeen(): boolean {
    return this.#finSeen;
  }

  /** The socket is gone, and so is everything that the shards had of it. */
  get isForgotten(): boolean {
    return this.#connection!.dead && this.#connection!.closesLeft === 0;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  // --- the client's side ------------------------------------------------------------------------------------------

  write(bytes: Uint8Array): void {
    if (this.#finSent || this.vanished || bytes.length === 0) return;
    this.#sent.push(bytes.slice());
  }

  /** Bytes on their way to the server. */
  get unsentBytes(): number {
    return this.#sent.reduce((sum, bytes) => sum + bytes.length, 0);
  }

  /** The client will send no more. */
  halfClose(): void {
    this.#finSent = true;
  }

  /** Closes both directions: what was sent arrives, what the server writes is refused. */
  close(): void {
    // Who closes with replies unread breaks the connection: a write that the server has under way fails.
    if (this.#unreadBytes > 0) this.#breaks = true;
    this.#finSent = true;
    this.vanished = true;
    this.#unread.length = 0;
    this.#unreadBytes = 0;
    if (this.#endWanted) this.#close();
  }

  /** The connection breaks: nothing more arrives on either side. */
  reset(): void {
    this.close();
    this.#sent.length = 0;
    this.#closeDue = true;
  }

  /** The server's side of the connection fails while the client is there: its client learns of it when it is destroyed. */
  fail(): void {
    this.#unread.length = 0;
    this.#unreadBytes = 0;
    this.#sent.length = 0;
    this.#finSent = true;
    this.#failDue = true;
  }

  /** Reads up to `bytes` of what waits. */
  read(bytes: number): void {
    let left = bytes;
    while (left > 0 && this.#unread.length > 0) {
      const first = this.#unread[0]!;
      const part = Math.min(left, first.length - first.from);
      const now = first.buffer.subarray(first.from, first.from + part);
      const then = first.copy.subarray(first.from, first.from + part);
      assert.ok(
        Buffer.compare(now, then) === 0,
        "a buffer was used again before the transport was done with it",
      );
      this.#received.push(then);
      first.from += part;
      left -= part;
      this.#unreadBytes -= part;
      if (first.from === first.length) this.#unread.shift();
    }
    if (this.#unreadBytes > 0) return;
    if (this.#endWanted) this.#close();
    else this.#drainDue = true;
  }

  /** Reads everything that waits, and from now on everything at once. */
  readAll(): void {
    this.readsAtOnce = true;
    if (this.#unreadBytes > 0) this.read(this.#unreadBytes);
  }

  /** Whether something has come that nobody has taken. */
  get hasReceived(): boolean {
    return this.#received.length > 0;
  }

  /** Takes what has come. */
  takeReceived(): Buffer {
    const all = Buffer.concat(this.#received);
    this.#received = [];
    return all;
  }
}
