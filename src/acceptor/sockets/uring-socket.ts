// One socket through io_uring: sending, receiving, pausing, moving to another thread, ending.

import { constants } from "node:os";
import { BodyPlace } from "../../engine/jobs/body-arena.ts";
import { duplicate, halves, peek, pointerTo, shutdown } from "../../uring/kernel.ts";
import type { MessageSlots } from "../../uring/message-slots.ts";
import { BUFFER_BYTES } from "../../uring/receive-buffers.ts";
import type { Uring } from "../../uring/uring.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { Connection } from "../connection/connection.ts";
import { buffers } from "../input/buffer-pool.ts";
import type { BodyReference, Departure, HandedOver, Transport } from "../replies/transport.ts";
import type { ConnectionLog } from "../state/connection-log.ts";
import type { AcceptedHandle } from "./listener.ts";
import { type SendSlots, STAGE_BYTES } from "./send-slots.ts";

/** The kind of operation that a completion belongs to: the second word of its user data. */
export const Kind = {
  Receive: 0,
  Send: 1,
  EventLoop: 2,
  Cancel: 3,
  ReceiveBody: 4,
  Room: 5,
  Ring: 6,
} as const;

const { ENOBUFS, EINTR, EAGAIN, ECANCELED } = constants.errno;

/** The sockets of a thread, as one of them sees them. */
interface Sockets {
  readonly ring: Uring;
  readonly stages: SendSlots;
  readonly messages: MessageSlots;
  /** Notes a send in flight that posts a completion only if it fails. */
  sendsSilently(socket: UringSocket): void;
  /** Asks for `onRoom` when the socket can take bytes again. Returns false if it cannot be had. */
  awaitRoom(socket: UringSocket): boolean;
  /** Schedules bytes of a pause. The call that ended the pause must not deliver them itself. */
  deliverLater(socket: UringSocket): void;
  /** Schedules closing: the kernel has no operation on the socket any more. */
  finishLater(socket: UringSocket): void;
}

const place = new BodyPlace();

export class UringSocket implements Transport, Departure {
  readonly index: number;
  readonly #sockets: Sockets;
  readonly #handle: AcceptedHandle;
  readonly #core: AcceptorCore;
  readonly log: ConnectionLog;
  readonly descriptor: number;
  #connection: Connection | undefined;
  pendingBytes = 0;
  /** Bytes on their way to the kernel; 0 if none are. */
  #sending = 0;
  /** How many of them have left, and how many the kernel was given last. */
  #sent = 0;
  #asked = 0;
  /** Position of a send that posts a completion only if it fails, or -1. */
  silentPlace = -1;
  hasFailedSilently = false;
  /** The location of the bytes: a slot number, or else a pool buffer. */
  #stage = -1;
  #buffer: Uint8Array | undefined;
  /** Bodies in between, and the message slot that describes them all. */
  #bodies: readonly BodyReference[] | undefined;
  #sendSlot = -1;
  readonly #queue: { readonly buffer: Uint8Array; readonly length: number }[] = [];
  #receiving = false;
  /** Destination of the current receive if not a buffer of the ring, and its message slot. */
  #place: BodyPlace | undefined;
  #bodySlot = -1;
  #paused = false;
  /** Bytes that were requested before the pause and arrived after it. */
  #stashed: Uint8Array | undefined;
  #stashedEnd = false;
  #ended = false;
  #ending = false;
  /** No more bytes are moved. */
  #gone = false;
  #destroyed = false;
  #finished = false;
  /** Set while the connection is about to move: called when the kernel has no operation left. */
  #onReady: (() => void) | undefined;
  #isLeaving = false;
  /** A receive failed meanwhile. */
  #failed = false;
  hasLeft = false;
  /** Set if it cannot move: its filter and its place in the counts belong to this acceptor. */
  stays = false;

  constructor(
    sockets: Sockets,
    index: number,
    handle: AcceptedHandle,
    core: AcceptorCore,
    log: ConnectionLog,
  ) {
    this.#core = core;
    this.log = log;
    this.#sockets = sockets;
    this.index = index;
    this.#handle = handle;
    this.descriptor = handle.fd;
  }

  /** Starts receiving. `bytes` were read earlier, in another thread. */
  open(connection: Connection, bytes?: Uint8Array): void {
    this.#connection = connection;
    if (bytes !== undefined) connection.onBytes(bytes, bytes.length);
    this.#receive(bytes !== undefined);
  }

  // --- bytes out ---------------------------------------------------------------------------------

  send(buffer: Uint8Array, length: number): boolean {
    if (this.#gone) return true;
    this.pendingBytes += length;
    if (this.#sending === 0) return this.#start(buffer, length);
    this.#queue.push({ buffer, length });
    return false;
  }

  /** Returns true if the buffer may be reused at once. */
  #start(buffer: Uint8Array, length: number): boolean {
    const { ring, stages } = this.#sockets;
    this.#sending = length;
    this.#asked = length;
    this.#sent = 0;
    this.#stage = length <= STAGE_BYTES ? stages.put(buffer, length) : -1;
    const staged = this.#stage >= 0;
    if (!staged) this.#buffer = buffer;
    const { low, high } = staged ? stages.address(this.#stage) : halves(pointerTo(buffer));
    // A completion would end the sleep that begins with the same system call.
    if (staged) this.silentPlace = ring.sendNow(this.descriptor, low, high, length, this.index, Kind.Send);
    if (this.silentPlace >= 0) this.#sockets.sendsSilently(this);
    else ring.send(this.descriptor, low, high, length, this.index, Kind.Send);
    return staged;
  }

  sendWithBodies(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): boolean {
    const { ring, messages } = this.#sockets;
    if (this.#gone || this.#sending > 0 || messages.areTaken) return false;
    const slot = messages.take();
    const total = this.#addParts(slot, buffer, length, bodies);
    if (total === 0) {
      messages.give(slot);
      return false;
    }
    this.pendingBytes += total;
    this.#sending = total;
    this.#asked = total;
    this.#sent = 0;
    this.#stage = -1;
    this.#buffer = buffer;
    this.#sendSlot = slot;
    this.#bodies = bodies;
    const { low, high } = messages.address(slot);
    ring.sendMessage(this.descriptor, low, high, this.index, Kind.Send);
    return true;
  }

  /** Returns the total length, or 0 if there are too many parts. */
  #addParts(slot: number, buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): number {
    const { messages } = this.#sockets;
    const start = length === 0 ? 0n : pointerTo(buffer);
    let from = 0;
    let total = 0;
    for (const { arena, handle, offset, length: bodyBytes, at } of bodies) {
      if (at > from) messages.add(slot, start + BigInt(from), at - from);
      from = at;
      for (let done = 0; done < bodyBytes; done += place.length) {
        // Keep one part for the bytes before the next body or after the last.
        if (!messages.hasRoom(slot, 3)) return 0;
        arena.locate(handle, offset + done, bodyBytes - done, place);
        messages.add(slot, pointerTo(place.bytes) + BigInt(place.at), place.length);
      }
      total += bodyBytes;
    }
    if (length > from) messages.add(slot, start + BigInt(from), length - from);
    return total + length;
  }

  /** Releases the memory of a finished send. */
  #release(): void {
    const { stages, messages } = this.#sockets;
    if (this.#stage >= 0) stages.give(this.#stage);
    else buffers.give(this.#buffer!);
    this.#buffer = undefined;
    if (this.#bodies === undefined) return;
    messages.give(this.#sendSlot);
    for (const { arena, handle } of this.#bodies) arena.unpin(handle);
    this.#bodies = undefined;
  }

  /** Treats the send as complete, unless its failure was reported. */
  onSentSilently(): void {
    if (this.silentPlace < 0 || this.hasFailedSilently) return;
    this.silentPlace = -1;
    this.onSent(this.#sending);
  }

  /** Whether the end of the current send has consequences. */
  get isAwaited(): boolean {
    return this.#ending || this.#gone || this.#queue.length > 0 || this.#connection!.waitsForDrain;
  }

  onSent(result: number): void {
    this.hasFailedSilently = false;
    this.silentPlace = -1;
    if (!this.#gone && (result >= 0 || result === -EAGAIN) && this.#goOn(Math.max(0, result))) return;
    this.#endSend();
  }

  /** Notes `sent` more bytes. Returns false if the send is finished or cannot continue. */
  #goOn(sent: number): boolean {
    this.#sent += sent;
    if (this.#sent === this.#sending) return false;
    // One part of a message has left, so the next may fit as well.
    if (sent === this.#asked) this.#sendRest();
    else if (!this.#sockets.awaitRoom(this)) return false;
    return true;
  }

  /** Continues a send, even on a socket that has failed: the send reports the failure. */
  onRoom(): void {
    if (this.#gone) this.#endSend();
    else this.#sendRest();
  }

  /** Sends the rest; of a message, one part at a time. */
  #sendRest(): void {
    const { low, high, length } = this.#rest();
    this.#asked = length;
    this.#sockets.ring.send(this.descriptor, low, high, length, this.index, Kind.Send);
  }

  #rest(): { low: number; high: number; length: number } {
    const { stages, messages } = this.#sockets;
    if (this.#bodies !== undefined) return messages.partAt(this.#sendSlot, this.#sent);
    const length = this.#sending - this.#sent;
    if (this.#stage >= 0) return { ...stages.address(this.#stage, this.#sent), length };
    return { ...halves(pointerTo(this.#buffer!) + BigInt(this.#sent)), length };
  }

  #endSend(): void {
    const length = this.#sending;
    const hasFailed = this.#sent < length;
    this.#sending = 0;
    this.#release();
    this.pendingBytes -= length;
    if (hasFailed) this.#disconnect();
    const next = this.#gone ? undefined : this.#queue.shift();
    if (this.#gone) this.#finishIfIdle();
    else if (next !== undefined) {
      if (this.#start(next.buffer, next.length)) buffers.give(next.buffer);
    } else if (this.#ending) this.#disconnect();
    else this.#connection!.onDrain();
  }

  // --- bytes in ----------------------------------------------------------------------------------

  #receive(likely: boolean): void {
    if (this.#receiving || this.#paused || this.#isLeaving || this.#ended || this.#gone) return;
    this.#receiving = true;
    if (this.#receiveBody(likely)) return;
    this.#sockets.ring.receive(this.descriptor, likely, this.index, Kind.Receive);
  }

  /** Receives part of a large body directly into its arena. Returns false if it cannot. */
  #receiveBody(likely: boolean): boolean {
    const { ring, messages } = this.#sockets;
    if (!this.#connection!.upload.awaitsBytes || messages.areTaken) return false;
    const place = (this.#place ??= new BodyPlace());
    if (!this.#connection!.upload.findRoom(place)) return false;
    const slot = messages.take();
    this.#bodySlot = slot;
    messages.add(slot, pointerTo(place.bytes) + BigInt(place.at), place.length);
    if (this.#connection!.upload.endsAfter(place.length)) messages.addTrailer(slot);
    // The kernel writes there until the receive completes, whatever happens to the job.
    place.arena!.pin(place.handle);
    const { low, high } = messages.address(slot);
    ring.receiveMessage(this.descriptor, low, high, likely, this.index, Kind.ReceiveBody);
    return true;
  }

  onBodyReceived(result: number, hasMore: boolean): void {
    const { messages } = this.#sockets;
    const { arena, handle, length } = this.#place!;
    const slot = this.#bodySlot;
    this.#receiving = false;
    arena!.unpin(handle);
    if (!this.#gone && result > 0) this.#onBodyBytes(result, length, slot, hasMore);
    messages.give(slot);
    if (this.#gone) this.#finishIfIdle();
    else if (result <= 0) this.onReceived(result, undefined, false);
  }

  #onBodyBytes(result: number, length: number, slot: number, hasMore: boolean): void {
    this.#connection!.upload.onStored(Math.min(result, length));
    if (result > length) this.#onBytes(result - length, this.#sockets.messages.trailer(slot), hasMore);
    else this.#receive(hasMore);
  }

  onReceived(result: number, bytes: Uint8Array | undefined, hasMore: boolean): void {
    this.#receiving = false;
    if (this.#isLeaving) {
      this.#keep(result, bytes);
      return;
    }
    if (this.#gone) this.#finishIfIdle();
    else if (result > 0 && bytes !== undefined) this.#onBytes(result, bytes, hasMore);
    else if (result === 0) {
      this.#stashedEnd = this.#paused;
      if (!this.#paused) this.#end();
    } else if (result === -ENOBUFS || result === -EAGAIN || result === -EINTR) this.#receive(true);
    else this.#disconnect();
  }

  #onBytes(length: number, bytes: Uint8Array, hasMore: boolean): void {
    if (this.#paused) {
      this.#stashed = bytes.slice(0, length);
      return;
    }
    this.#connection!.onBytes(bytes, length);
    if (hasMore && length < BUFFER_BYTES) this.#lookForEnd();
    this.#receive(hasMore || length === BUFFER_BYTES);
  }

  /**
   * Checks for an end of stream after a buffer that was not full, where it is likely. Later
   * completions of this batch carry other clients' bytes, and the end has to be processed before
   * those. A receive would report it only in the next turn.
   */
  #lookForEnd(): void {
    if (this.#paused || this.#gone) return;
    // The next receive reports anything but an end, even an error.
    if (peek(this.descriptor) === 0) this.#end();
  }

  #end(): void {
    this.#ended = true;
    this.#connection!.onEnd();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (this.#stashed === undefined && !this.#stashedEnd) this.#receive(true);
    else this.#sockets.deliverLater(this);
  }

  /**
   * Delivers what arrived during the pause. If the connection moves, the bytes go with it; if the
   * move fails, they are delivered then.
   */
  deliver(): void {
    if (this.#paused || this.#gone || this.#isLeaving) return;
    const bytes = this.#stashed;
    this.#stashed = undefined;
    if (bytes !== undefined) this.#connection!.onBytes(bytes, bytes.length);
    else if (this.#stashedEnd && !this.#ended) this.#end();
    this.#receive(true);
  }

  // --- moving to another thread ------------------------------------------------------------------

  get departure(): Departure | undefined {
    return this.stays ? undefined : this;
  }

  begin(onReady: () => void): void {
    this.#isLeaving = true;
    this.#onReady = onReady;
    if (this.#receiving) this.#sockets.ring.cancel(this.index, Kind.Receive, this.index, Kind.Cancel);
    else this.#ready();
  }

  #ready(): void {
    const onReady = this.#onReady;
    this.#onReady = undefined;
    onReady?.();
  }

  /** Keeps the result of the last receive before its cancellation, if there is one. */
  #keep(result: number, bytes: Uint8Array | undefined): void {
    if (result > 0 && bytes !== undefined) this.#stashed = bytes.slice(0, result);
    else if (result === 0) this.#stashedEnd = true;
    else this.#failed = ![ENOBUFS, EINTR, EAGAIN, ECANCELED].includes(-result);
    this.#ready();
  }

  cancel(): void {
    this.#isLeaving = false;
    if (this.#failed) this.#disconnect();
    else if (this.#stashed === undefined && !this.#stashedEnd) this.#receive(true);
    else this.#sockets.deliverLater(this);
  }

  complete(): HandedOver | undefined {
    if (this.#failed || this.#stashedEnd) return undefined;
    const descriptor = duplicate(this.descriptor);
    if (descriptor < 0) return undefined;
    this.hasLeft = true;
    this.#finished = true;
    this.#sockets.finishLater(this);
    return { descriptor, bytes: this.#stashed };
  }

  // --- the end -----------------------------------------------------------------------------------

  end(): void {
    this.#ending = true;
    if (this.pendingBytes === 0) this.#disconnect();
  }

  /** Stops moving bytes. The core calls `destroy` when the shards know. */
  #disconnect(): void {
    if (this.#gone) return;
    this.#gone = true;
    for (const { buffer } of this.#queue) buffers.give(buffer);
    this.#queue.length = 0;
    this.#core.disconnect(this.#connection!);
  }

  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    // The client sees the end now. Pending operations complete, and then the socket is closed.
    shutdown(this.descriptor);
    this.#finishIfIdle();
  }

  #finishIfIdle(): void {
    if (!this.#destroyed || this.#receiving || this.#sending > 0 || this.#finished) return;
    this.#finished = true;
    this.#sockets.finishLater(this);
  }

  /** Closes the socket. Called when the kernel has no operation on it. */
  close(): void {
    this.#handle.close();
  }
}
