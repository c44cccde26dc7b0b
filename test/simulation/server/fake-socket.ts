// A socket without a network: the server's side is a Transport, the client's side writes, reads,
// stalls and vanishes.

import assert from "node:assert/strict";
import type { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../../src/acceptor/connection/connection.ts";
import type { MovedConnection } from "../../../src/acceptor/migration/client-state.ts";
import { MIGRATION_BYTES_MAX } from "../../../src/acceptor/migration/migration-ring.ts";
import type { Output } from "../../../src/acceptor/stream/output.ts";
import type {
  BodyReference,
  Departure,
  HandedOver,
  Transport,
} from "../../../src/acceptor/stream/transport.ts";
import { PlacedBody, SPOILED } from "./placed-body.ts";

/** Bytes that the server handed over and the client has not read. */
interface Unread {
  /** The server's own buffer: it must leave it alone until it is read. */
  readonly buffer: Uint8Array;
  readonly copy: Uint8Array;
  length: number;
  from: number;
  /** The bodies between its bytes: they must stay as they are, too. */
  readonly bodies: readonly BodyReference[];
}

/** Joins the sent bytes from where they lie now. */
function gather(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): Uint8Array {
  const parts: Uint8Array[] = [];
  let from = 0;
  for (const { arena, handle, offset, length: bodyBytes, at } of bodies) {
    const body = new Uint8Array(bodyBytes);
    arena.read(handle, offset, body, 0, bodyBytes);
    parts.push(buffer.slice(from, at), body);
    from = at;
  }
  return Buffer.concat([...parts, buffer.slice(from, length)]);
}

/**
 * One read buffer for all connections, as in src/acceptor/acceptor-thread.ts: its bytes are valid
 * during the call only.
 */
const readBuffer = new Uint8Array(64 * 1024);
let sockets = 0;

export class FakeSocket implements Transport, Departure {
  /** A unique number. */
  readonly descriptor: number = ++sockets;
  /** The client reads at once what comes; otherwise it reads when `read` is called. */
  readsAtOnce = true;
  /** Told of every part of a reply that joins the output, where it may wait for the log. */
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
  /** Everything that the client has received and the test hasn't taken. */
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
  readonly #worksInPlace: boolean;
  readonly #place = new PlacedBody(this);

  /** `worksInPlace`: large bodies are received and sent right in their arenas, as with io_uring. */
  constructor(core: AcceptorCore, worksInPlace = false) {
    this.#core = core;
    this.#worksInPlace = worksInPlace;
  }

  // --- the server's side -------------------------------------------------------------------------

  /** Its client closed without reading all; told when what it had sent has been read. */
  #breaks = false;

  /** Takes the place of an accept. */
  open(): void {
    this.#connection = this.#core.connect(this);
    assert.ok(this.#connection !== undefined, "there is a slot for one more connection");
    this.#watchOutput(this.#connection.replies);
  }

  #watchOutput(output: Output): void {
    const append = output.append.bind(output);
    output.append = (source, at, length) => {
      this.onAnswered?.(source.subarray(at, at + length));
      append(source, at, length);
    };
    const appendBody = output.appendBody.bind(output);
    output.appendBody = (bodies, handle, offset, length) => {
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
      this.#failToWrite();
      return true;
    }
    if (this.#failDue || this.#failed) return true;
    this.onSent?.(buffer.subarray(0, length));
    if (this.readsAtOnce && this.#unreadBytes === 0) {
      this.#received.push(buffer.slice(0, length));
      return true;
    }
    this.#unread.push({ buffer, copy: buffer.slice(0, length), length, from: 0, bodies: [] });
    this.#unreadBytes += length;
    return false;
  }

  /** A failed write is reported within the call by libuv, in a later turn by io_uring. */
  #failToWrite(): void {
    if (this.#worksInPlace) {
      this.#closeDue = true;
      return;
    }
    this.#closed = true;
    this.#core.disconnect(this.#connection!);
  }

  sendWithBodies(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): boolean {
    if (!this.#worksInPlace || this.vanished || this.#failDue || this.#failed || this.#unreadBytes > 0)
      return false;
    assert.ok(!this.#closed && !this.#endWanted, "nothing is sent after the end");
    const copy = gather(buffer, length, bodies);
    this.onSent?.(copy);
    this.#unread.push({ buffer, copy, length: copy.length, from: 0, bodies });
    this.#unreadBytes += copy.length;
    if (this.readsAtOnce) this.read(copy.length);
    return true;
  }

  #forget({ bodies }: Unread): void {
    for (const { arena, handle } of bodies) arena.unpin(handle);
  }

  #forgetUnread(): void {
    for (const each of this.#unread) this.#forget(each);
    this.#unread.length = 0;
    this.#unreadBytes = 0;
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
    this.#forgetUnread();
    this.#place.abandon();
    this.#close();
  }

  #close(): void {
    this.#closeDue = true;
    this.ended = true;
    if (this.endVisible || this.vanished) return;
    this.endVisible = true;
    this.onEndVisible?.();
  }

  // --- a move to another acceptor ----------------------------------------------------------------

  /** Set while the connection is about to move, and nothing is read. */
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
    const bytes = this.#sent[0]?.subarray(0, MIGRATION_BYTES_MAX);
    if (bytes !== undefined) {
      const rest = this.#sent.shift()!.subarray(bytes.length);
      if (rest.length > 0) this.#sent.unshift(rest);
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
    this.#watchOutput(this.#connection.replies);
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

  /**
   * Handles one event, with at most `bytesMax` bytes if it is a read. Returns false for events that
   * say nothing about the client: its socket has taken what the server sent.
   */
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
      if (this.#place.isOpen) this.#place.fill(connection, bytesMax);
      else this.#read(connection, Math.min(bytesMax, readBuffer.length));
    } else {
      if (this.#place.isOpen) this.#place.finish(connection);
      this.#finSeen = true;
      connection.onEnd();
      // A client that closed, and did not only half-close, is found out when something is written
      // to it, or at last now.
      if (this.vanished) this.#closeDue = true;
    }
    return !isDrain;
  }

  #read(connection: Connection, bytesMax: number): void {
    const length = this.take(readBuffer, 0, bytesMax);
    connection.onBytes(readBuffer, length);
    readBuffer.fill(SPOILED, 0, length);
    this.#place.begin(connection);
  }

  /** Takes up to `bytesMax` of what was sent; returns how many they were. */
  take(target: Uint8Array, at: number, bytesMax: number): number {
    let length = 0;
    while (this.#sent.length > 0 && length < bytesMax) {
      const first = this.#sent[0]!;
      const part = Math.min(first.length, bytesMax - length);
      target.set(first.subarray(0, part), at + length);
      length += part;
      if (part === first.length) this.#sent.shift();
      else this.#sent[0] = first.subarray(part);
    }
    this.deliveredBytes += length;
    return length;
  }

  /** Whether a receive may go to the arena now. */
  get mayPlace(): boolean {
    return this.#worksInPlace && !this.#paused && !this.#endWanted;
  }

  /** The server has stopped reading, and will not see an end before it reads on. */
  get isPaused(): boolean {
    return this.#paused;
  }

  /** The server has seen that the client will send no more. */
  get isEndSeen(): boolean {
    return this.#finSeen;
  }

  /**
   * The socket is gone, and so is everything that the shards had of it. The acceptor that a moving
   * connection has left knows it no more, but it is still counted.
   */
  get isForgotten(): boolean {
    if (this.#isAway) return false;
    const { isDead, closesLeft } = this.#connection!;
    return isDead && closesLeft === 0;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  // --- the client's side -------------------------------------------------------------------------

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
    // A close with unread replies resets the connection: a pending write of the server fails.
    if (this.#unreadBytes > 0) this.#breaks = true;
    this.#finSent = true;
    this.vanished = true;
    this.#forgetUnread();
    if (this.#endWanted) this.#close();
  }

  /** The connection breaks: nothing more arrives on either side. */
  reset(): void {
    this.close();
    this.#sent.length = 0;
    this.#closeDue = true;
  }

  /**
   * The server's side of the connection fails while the client is there: its client learns of it
   * when it is destroyed.
   */
  fail(): void {
    this.#forgetUnread();
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
      const gathered = gather(
        first.buffer,
        first.length - first.bodies.reduce((sum, body) => sum + body.length, 0),
        first.bodies,
      );
      const now = gathered.subarray(first.from, first.from + part);
      const then = first.copy.subarray(first.from, first.from + part);
      assert.ok(
        Buffer.compare(now, then) === 0,
        "a buffer was used again before the transport was done with it",
      );
      this.#received.push(then);
      first.from += part;
      left -= part;
      this.#unreadBytes -= part;
      if (first.from === first.length) this.#forget(this.#unread.shift()!);
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

  /** Whether untaken bytes have arrived. */
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
