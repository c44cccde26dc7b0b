// One socket through io_uring: what it sends and receives, its pauses, its move to another thread, its end.

import { BodyPlace } from "../../engine/jobs/body-arena.ts";
import { duplicate, peek, pointerTo, shutdown } from "../../uring/kernel.ts";
import type { MessageSlots } from "../../uring/message-slots.ts";
import { BUFFER_BYTES, halves, type Uring } from "../../uring/uring.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { Connection } from "../connection/connection.ts";
import { buffers } from "../input/buffer-pool.ts";
import type { BodyReference, Departure, HandedOver, Transport } from "../replies/transport.ts";
import type { ConnectionLog } from "../state/connection-log.ts";
import { type SendSlots, STAGE_BYTES } from "./send-slots.ts";

/** What a completion is of: the second word that comes with it. */
export const Kind = {
  Receive: 0,
  Send: 1,
  EventLoop: 2,
  Cancel: 3,
  ReceiveBody: 4,
  Room: 5,
  Ring: 6,
} as const;

const ENOBUFS = 105;
const EINTR = 4;
const EAGAIN = 11;
const ECANCELED = 125;

/** What node:net gives for an accepted connection: its stream, not yet read. */
export interface AcceptedHandle {
  readonly fd: number;
  setNoDelay?(on: boolean): void;
  setKeepAlive?(on: boolean, delaySeconds: number, intervalSeconds?: number, count?: number): void;
  close(): void;
}

/** The sockets of a thread, as one of them sees them. */
interface Sockets {
  readonly ring: Uring;
  readonly stages: SendSlots;
  readonly messages: MessageSlots;
  /** The socket has a send under way that tells only of its failure. */
  sendsSilently(socket: UringSocket): void;
  /** The socket is to be told when it has room for bytes again; false if that can't be had. */
  awaitRoom(socket: UringSocket): boolean;
  /** The socket may go on with what came during its pause, but not within the call that ended the pause. */
  deliverLater(socket: UringSocket): void;
  /** The socket has nothing under way in the kernel any more and can be closed. */
  finishLater(socket: UringSocket): void;
}

const place = new BodyPlace();

interface Queued {
  readonly buffer: Uint8Array;
  readonly length: number;
}

export class UringSocket implements Transport, Departure {
  readonly index: number;
  readonly #sockets: Sockets;
  readonly #handle: AcceptedHandle;
  readonly #core: AcceptorCore;
  readonly log: ConnectionLog;
  readonly descriptor: number;
  #connection: Connection | undefined;
  pendingBytes = 0;
  /** Bytes on their way to the kernel, 0 for none. */
  #sending = 0;
  /** Of these so many have left, and so many the kernel was given then. */
  #sent = 0;
  #asked = 0;
  /** Place of a send that tells only of its failure, or -1. */
  silentPlace = -1;
  hasFailedSilently = false;
  /** Where they are: a stage's number, or else a buffer of the pool. */
  #stage = -1;
  #buffer: Uint8Array | undefined;
  /** Bodies between its bytes, and the message that has them all. */
  #bodies: readonly BodyReference[] | undefined;
  #sendSlot = -1;
  readonly #queue: Queued[] = [];
  #receiving = false;
  /** Where the receive that is under way puts its bytes, if not into a buffer of the ring, and its message. */
  #place: BodyPlace | undefined;
  #bodySlot = -1;
  #paused = false;
  /** What had been asked for before the pause and came after it. */
  #stashed: Uint8Array | undefined;
  #stashedEnd = false;
  #ended = false;
  #ending = false;
  /** No more bytes are moved. */
  #gone = false;
  #destroyed = false;
  #finished = false;
  /** Set while its connection is about to move: called when the kernel has nothing under way. */
  #onReady: (() => void) | undefined;
  #isLeaving = false;
  /** The error of a receive meanwhile. */
  #failed = false;
  hasLeft = false;
  /** Its gate and its place in the counts of the gatekeeper belong to this acceptor. */
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

  /** `bytes` were read of it before, in another thread. */
  open(connection: Connection, bytes?: Uint8Array): void {
    this.#connection = connection;
    if (bytes !== undefined) connection.onBytes(bytes, bytes.length);
    this.#receive(bytes !== undefined);
  }

  // --- bytes out ------------------------------------------------------------------------------------------

  send(buffer: Uint8Array, length: number): boolean {
    if (this.#gone) return true;
    this.pendingBytes += length;
    if (this.#sending === 0) return this.#start(buffer, length);
    this.#queue.push({ buffer, length });
    return false;
  }

  /** True if the buffer may be used again at once. */
  #start(buffer: Uint8Array, length: number): boolean {
    const { ring, stages } = this.#sockets;
    this.#sending = length;
    this.#asked = length;
    this.#sent = 0;
    this.#stage = length <= STAGE_BYTES ? stages.put(buffer, length) : -1;
    const staged = this.#stage >= 0;
    if (!staged) this.#buffer = buffer;
    const { low, high } = staged ? stages.address(this.#stage) : halves(pointerTo(buffer));
    // A completion would end the sleep that the same call begins.
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

  /** Returns how many bytes they are; 0 if they are too many parts. */
  #addParts(slot: number, buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): number {
    const { messages } = this.#sockets;
    const start = length === 0 ? 0n : pointerTo(buffer);
    let from = 0;
    let total = 0;
    for (const { arena, handle, offset, length: bodyBytes, at } of bodies) {
      if (at > from) messages.add(slot, start + BigInt(from), at - from);
      from = at;
      for (let done = 0; done < bodyBytes; done += place.length) {
        // One for the bytes before the next body, or behind the last.
        if (!messages.hasRoom(slot, 3)) return 0;
        arena.locate(handle, offset + done, bodyBytes - done, place);
        messages.add(slot, pointerTo(place.bytes) + BigInt(place.at), place.length);
      }
      total += bodyBytes;
    }
    if (length > from) messages.add(slot, start + BigInt(from), length - from);
    return total + length;
  }

  /** What was being sent is the kernel's no more. */
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

  /** All of it was sent, unless it has been told otherwise. */
  onSentSilently(): void {
    if (this.silentPlace < 0 || this.hasFailedSilently) return;
    this.silentPlace = -1;
    this.onSent(this.#sending);
  }

  /** Whether something is to be done when what is being sent has left. */
  get isAwaited(): boolean {
    return this.#ending || this.#gone || this.#queue.length > 0 || this.#connection!.waitsForDrain;
  }

  onSent(result: number): void {
    this.hasFailedSilently = false;
    this.silentPlace = -1;
    if (!this.#gone && (result >= 0 || result === -EAGAIN) && this.#goOn(Math.max(0, result))) return;
    this.#endSend();
  }

  /** So many bytes more have left. False if that was all. */
  #goOn(sent: number): boolean {
    this.#sent += sent;
    if (this.#sent === this.#sending) return false;
    // A part of a message has left, and the next one may find room as well.
    if (sent === this.#asked) this.#sendRest();
    else if (!this.#sockets.awaitRoom(this)) return false;
    return true;
  }

  /** Also where it has failed meanwhile: the kernel tells so to whoever sends. */
  onRoom(): void {
    if (this.#gone) this.#endSend();
    else this.#sendRest();
  }

  /** What is left, of a message a part at a time. */
  #sendRest(): void {
    const { ring } = this.#sockets;
    const { low, high, length } = this.#rest();
    this.#asked = length;
    ring.send(this.descriptor, low, high, length, this.index, Kind.Send);
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

  // --- bytes in -------------------------------------------------------------------------------------------

  #receive(likely: boolean): void {
    if (this.#receiving || this.#paused || this.#isLeaving || this.#ended || this.#gone) return;
    this.#receiving = true;
    if (this.#receiveBody(likely)) return;
    this.#sockets.ring.receive(this.descriptor, likely, this.index, Kind.Receive);
  }

  /** Receives the rest of a large body, or a block of it, right into the arena that it belongs to; false if that can't be. */
  #receiveBody(likely: boolean): boolean {
    const { ring, messages } = this.#sockets;
    if (!this.#connection!.awaitsBody || messages.areTaken) return false;
    const place = (this.#place ??= new BodyPlace());
    if (!this.#connection!.findBodyRoom(place)) return false;
    const slot = messages.take();
    this.#bodySlot = slot;
    messages.add(slot, pointerTo(place.bytes) + BigInt(place.at), place.length);
    if (this.#connection!.endsBody(place.length)) messages.addTrailer(slot);
    // The kernel writes there until it tells of the end, whatever becomes of the job meanwhile.
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
    this.#connection!.onStored(Math.min(result, length));
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
   * What is behind a buffer that is not full is an end most of the time. It is taken before the bytes of
   * others, which are behind it in the completions that are being handled: a receive would tell of it only in
   * the next turn.
   */
  #lookForEnd(): void {
    if (this.#paused || this.#gone) return;
    // Anything but an end, an error too, is for the next receive to tell.
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

  /** Hands over what came during the pause. Of a connection that moves it goes with it, or is handed over when that stays. */
  deliver(): void {
    if (this.#paused || this.#gone || this.#isLeaving) return;
    const bytes = this.#stashed;
    this.#stashed = undefined;
    if (bytes !== undefined) this.#connection!.onBytes(bytes, bytes.length);
    else if (this.#stashedEnd && !this.#ended) this.#end();
    this.#receive(true);
  }

  // --- moving to another thread -----------------------------------------------------------------------------------

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

  /** What the last receive gave before it was cancelled, if anything. */
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

  // --- the end --------------------------------------------------------------------------------------------

  end(): void {
    this.#ending = true;
    if (this.pendingBytes === 0) this.#disconnect();
  }

  /** No more bytes are moved; the core calls `destroy` when the shards know. */
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
    // The client sees the end now. What the kernel still waits for is completed, and then the socket is
    // closed.
    shutdown(this.descriptor);
    this.#finishIfIdle();
  }

  #finishIfIdle(): void {
    if (!this.#destroyed || this.#receiving || this.#sending > 0 || this.#finished) return;
    this.#finished = true;
    this.#sockets.finishLater(this);
  }

  /** Closes the socket; called when the kernel has nothing of it under way. */
  close(): void {
    this.#handle.close();
  }
}
