// The output of one socket through io_uring: one send at a time, from a slot, a pool buffer, or a
// message with bodies in between.

import { constants } from "node:os";
import { BodyPlace } from "../../engine/jobs/body-arena.ts";
import { halves, pointerTo } from "../../uring/kernel.ts";
import type { MessageSlots } from "../../uring/message-slots.ts";
import type { Uring } from "../../uring/uring.ts";
import { buffers } from "../input/buffer-pool.ts";
import type { BodyReference } from "../replies/transport.ts";
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
  End: 7,
} as const;

const { EAGAIN } = constants.errno;

/** The sockets of a thread, as the output of one of them sees them. */
export interface OutputSockets {
  readonly ring: Uring;
  readonly stages: SendSlots;
  readonly messages: MessageSlots;
  /** Notes a send in flight that posts a completion only if it fails. */
  sendsSilently(output: UringOutput): void;
  /**
   * Asks for `onRoom` when the socket can take bytes again. Returns false if that is impossible.
   */
  awaitRoom(descriptor: number, index: number): boolean;
}

interface Socket {
  readonly index: number;
  readonly descriptor: number;
  /** The socket moves no more bytes. */
  readonly isGone: boolean;
  readonly isAwaited: boolean;
  onSendEnd(hasFailed: boolean): void;
}

const place = new BodyPlace();

export class UringOutput {
  /** Bytes handed over and not yet taken by the kernel. */
  pendingBytes = 0;
  /** Position of a send that posts a completion only if it fails, or -1. */
  silentPlace = -1;
  hasFailedSilently = false;
  readonly #sockets: OutputSockets;
  readonly #socket: Socket;
  /** Bytes on their way to the kernel; 0 if none are. */
  #sending = 0;
  /** How many of them have left, and how many were last given to the kernel. */
  #sent = 0;
  #asked = 0;
  /** The location of the bytes: a slot number, or else a pool buffer. */
  #stage = -1;
  #buffer: Uint8Array | undefined;
  /** Bodies in between, and the message slot that describes them all. */
  #bodies: readonly BodyReference[] | undefined;
  #sendSlot = -1;
  readonly #queue: { readonly buffer: Uint8Array; readonly length: number }[] = [];

  constructor(sockets: OutputSockets, socket: Socket) {
    this.#sockets = sockets;
    this.#socket = socket;
  }

  get isSending(): boolean {
    return this.#sending > 0;
  }

  get hasMore(): boolean {
    return this.#queue.length > 0;
  }

  /** Whether the end of the current send has consequences. */
  get isAwaited(): boolean {
    return this.#socket.isAwaited;
  }

  /** Returns true if the buffer may be reused at once. */
  send(buffer: Uint8Array, length: number): boolean {
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
    if (staged)
      this.silentPlace = ring.sendNow(
        this.#socket.descriptor,
        low,
        high,
        length,
        this.#socket.index,
        Kind.Send,
      );
    if (this.silentPlace >= 0) this.#sockets.sendsSilently(this);
    else ring.send(this.#socket.descriptor, low, high, length, this.#socket.index, Kind.Send);
    return staged;
  }

  sendWithBodies(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): boolean {
    const { ring, messages } = this.#sockets;
    if (this.#sending > 0 || messages.areTaken) return false;
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
    ring.sendMessage(this.#socket.descriptor, low, high, this.#socket.index, Kind.Send);
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

  onSent(result: number): void {
    this.hasFailedSilently = false;
    this.silentPlace = -1;
    if (!this.#socket.isGone && (result >= 0 || result === -EAGAIN) && this.#goOn(Math.max(0, result)))
      return;
    this.#endSend();
  }

  /** Notes `sent` more bytes. Returns false if the send is finished or cannot continue. */
  #goOn(sent: number): boolean {
    this.#sent += sent;
    if (this.#sent === this.#sending) return false;
    // One part of a message has left, so the next may fit as well.
    if (sent === this.#asked) this.#sendRest();
    else if (!this.#sockets.awaitRoom(this.#socket.descriptor, this.#socket.index)) return false;
    return true;
  }

  /** Continues a send, even on a socket that has failed: the send reports the failure. */
  onRoom(): void {
    if (this.#socket.isGone) this.#endSend();
    else this.#sendRest();
  }

  /** Sends the rest; of a message, one part at a time. */
  #sendRest(): void {
    const { low, high, length } = this.#rest();
    this.#asked = length;
    this.#sockets.ring.send(this.#socket.descriptor, low, high, length, this.#socket.index, Kind.Send);
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
    this.#socket.onSendEnd(hasFailed);
  }

  /** Starts the next send. Returns false if there is none. */
  sendNext(): boolean {
    const next = this.#queue.shift();
    if (next === undefined) return false;
    if (this.#start(next.buffer, next.length)) buffers.give(next.buffer);
    return true;
  }

  /** Discards the output that waits for the current send. */
  dropNext(): void {
    for (const { buffer } of this.#queue) buffers.give(buffer);
    this.#queue.length = 0;
  }
}
