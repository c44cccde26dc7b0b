// Sockets through io_uring: one system call per turn carries the sends and receives of all
// connections.
//
// node:net accepts the connections and sets their options, but their bytes bypass it. The event
// loop's other work (new connections, orders of the main thread, the doorbell) makes its own
// descriptor readable, which the ring watches while the thread sleeps.

import { constants } from "node:os";
import { assert } from "../../base/assert.ts";
import { BodyPlace } from "../../engine/jobs/body-arena.ts";
import {
  type Address,
  addressBehind,
  addressOf,
  closeDescriptor,
  duplicate,
  eventLoopDescriptor,
  isTcp,
  peek,
  shutdown,
} from "../../uring/kernel.ts";
import {
  BUFFER_BYTES,
  CQE_MORE,
  CQE_SOCK_NONEMPTY,
  MessageSlots,
  MULTISHOT_RECEIVES,
  RECEIVE_BYTES_MAX,
  RoomWatch,
  SEND_SLOT_BYTES,
  SendSlots,
  Uring,
} from "../../uring/uring.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { Connection } from "../connection/connection.ts";
import type { MovedConnection } from "../migration/client-state.ts";
import { MIGRATION_BYTES_MAX } from "../migration/migration-ring.ts";
import { buffers } from "../stream/output.ts";
import type { BodyReference, Departure, HandedOver, Transport } from "../stream/transport.ts";
import type { AcceptedHandle, ConnectionContext, ConnectionLog } from "./listener.ts";

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

const { ENOBUFS, EINTR, EAGAIN, ECANCELED } = constants.errno;

const place = new BodyPlace();
const NOWHERE: Address = { low: 0, high: 0 };

/** Messages to and from arenas that may be in flight. Beyond that, bytes go through buffers. */
const MESSAGES = 512;

export class UringSockets {
  readonly ring: Uring = new Uring();
  readonly sendSlots: SendSlots = new SendSlots();
  readonly messages: MessageSlots = new MessageSlots(MESSAGES);
  /** Called with the word of a doorbell whose thread could not be woken in its ring. */
  onNotRung: (word: number) => void = () => {};
  readonly #cores: readonly AcceptorCore[];
  readonly #onActivity: () => void;
  readonly #eventLoop = eventLoopDescriptor();
  /** Whether the event loop has work, as of the last turn or wait. */
  eventLoopIsReady = true;
  /** Sockets that were full. While there are any, the ring watches this descriptor too. */
  readonly #room = new RoomWatch();
  #watchesRoom = false;
  readonly #sockets: (UringSocket | undefined)[] = [];
  readonly #free: number[] = [];
  /** Sockets with a send in flight that posts a completion only if it fails. */
  silent: UringSocket[] = [];
  /** Whether the completions being processed have brought bytes or an end. */
  #hasReceived = false;
  #toFinish: UringSocket[] = [];
  #toDeliver: UringSocket[] = [];

  /**
   * Throws KernelError if io_uring is unavailable. `onActivity` is called whenever bytes or an end
   * have arrived.
   */
  constructor(cores: readonly AcceptorCore[], onActivity: () => void) {
    this.#cores = cores;
    this.#onActivity = onActivity;
  }

  /** Takes over a handle that one of the acceptors has accepted, and serves it. */
  serve(accepted: unknown, { core, entry, peer, listener, keepAlive, log, bytes }: ConnectionContext): void {
    const handle = accepted as AcceptedHandle;
    const index = this.#free.pop() ?? this.#sockets.length;
    const socket = new UringSocket(this, index, handle, core, log);
    socket.stays = entry !== undefined;
    const connection = core.connect(entry?.wrap(socket) ?? socket, entry?.filter, peer, listener);
    if (connection === undefined) {
      log.noSlot();
      this.#free.push(index);
      handle.close();
      return;
    }
    this.#sockets[index] = socket;
    log.accepted(handle.fd);
    handle.setNoDelay?.(true);
    const { delayMs, intervalMs, count } = keepAlive;
    const intervalSeconds = intervalMs === undefined ? undefined : intervalMs / 1000;
    handle.setKeepAlive?.(true, delayMs / 1000, intervalSeconds, count);
    socket.open(connection, bytes);
    this.#onActivity();
  }

  /** Wakes a thread that sleeps in another ring. */
  ringIn(descriptor: number, word: number): void {
    if (!this.ring.tell(descriptor, word, Kind.Ring)) this.onNotRung(word);
  }

  /** Resumes a connection that has come from another thread. */
  land(moved: MovedConnection, core: AcceptorCore, log: ConnectionLog): void {
    const fd = moved.descriptor;
    const index = this.#free.pop() ?? this.#sockets.length;
    const socket = new UringSocket(this, index, { fd, close: () => closeDescriptor(fd) }, core, log);
    this.#sockets[index] = socket;
    log.arrived(fd);
    socket.open(core.land(moved, socket), moved.bytes);
    this.#onActivity();
  }

  /** Submits everything to the kernel and processes the completions that have arrived. */
  turn(): void {
    if (this.eventLoopIsReady || this.#room.watched > 0) this.#watchOthers();
    this.ring.submit();
    this.takeCompletions();
    for (let each = 0; each < this.#cores.length; each++) {
      const { barriers } = this.#cores[each]!;
      if (barriers.hasWork) barriers.haveRead();
    }
  }

  /**
   * Submits everything and sleeps until the sockets or the event loop have work, at most
   * `timeoutMs`.
   */
  wait(timeoutMs: number): void {
    if (this.eventLoopIsReady || this.#room.watched > 0) this.#watchOthers();
    // Don't sleep while sockets have scheduled work. The end of a silent send would not end the
    // sleep either.
    let hasMore = this.#toDeliver.length > 0 || this.#toFinish.length > 0;
    for (const socket of this.silent) hasMore ||= socket.isAwaited;
    if (hasMore) this.ring.submit();
    else this.ring.submitAndWait(timeoutMs);
  }

  #watchOthers(): void {
    if (this.eventLoopIsReady) {
      this.eventLoopIsReady = false;
      this.ring.pollIn(this.#eventLoop, 0, Kind.EventLoop);
    }
    if (this.#watchesRoom || this.#room.watched === 0) return;
    this.#watchesRoom = true;
    this.ring.pollIn(this.#room.descriptor, 0, Kind.Room);
  }

  /** Processes the available completions. Returns their number. */
  takeCompletions(): number {
    if (this.silent.length > 0) this.#settle();
    const taken = this.ring.reap(this.#complete);
    if (this.#hasReceived) this.#onActivity();
    this.#hasReceived = false;
    if (this.#toDeliver.length > 0) this.#deliver();
    if (this.#toFinish.length > 0) this.#finish();
    return taken;
  }

  readonly #complete = (
    index: number,
    kind: number,
    result: number,
    flags: number,
    bytes: Uint8Array | undefined,
  ): void => {
    if (kind === Kind.EventLoop) {
      this.eventLoopIsReady = true;
      return;
    }
    if (kind === Kind.Room) {
      this.#watchesRoom = false;
      this.#room.take(this.#onRoom);
      return;
    }
    if (kind === Kind.Ring) {
      if (result < 0) this.onNotRung(index);
      return;
    }
    const socket = this.#sockets[index]!;
    if (kind === Kind.Send) socket.onSent(result);
    else if (kind === Kind.End) socket.onEndSeen(result);
    else if (kind === Kind.ReceiveBody) {
      socket.onBodyReceived(result, (flags & CQE_SOCK_NONEMPTY) !== 0);
      this.#hasReceived = true;
    } else if (kind !== Kind.Cancel) {
      socket.onReceived(result, bytes, (flags & CQE_SOCK_NONEMPTY) !== 0, (flags & CQE_MORE) !== 0);
      this.#hasReceived = true;
    }
  };

  readonly #onRoom = (index: number): void => this.#sockets[index]!.onRoom();

  /**
   * Asks for `onRoom` when the socket can take bytes again. Returns false if that is impossible.
   */
  awaitRoom(descriptor: number, index: number): boolean {
    return this.#room.add(descriptor, index);
  }

  /**
   * Finishes sends that the kernel has taken without reporting a failure. This comes before the
   * completions, so that a client's next command finds the earlier replies gone.
   */
  #settle(): void {
    const sockets = this.silent;
    this.silent = [];
    const settledPlace = this.ring.look(Kind.Send, this.#noteFailure);
    for (const socket of sockets) {
      if (socket.silentPlace <= settledPlace) socket.onSentSilently();
      else this.silent.push(socket);
    }
  }

  readonly #noteFailure = (index: number): void => {
    this.#sockets[index]!.hasFailedSilently = true;
  };

  /**
   * Schedules the bytes that arrived during a pause. The call that ended the pause must not deliver
   * them itself.
   */
  deliverLater(socket: UringSocket): void {
    this.#toDeliver.push(socket);
    this.#onActivity();
  }

  #deliver(): void {
    const sockets = this.#toDeliver;
    this.#toDeliver = [];
    for (const socket of sockets) socket.deliver();
    this.#onActivity();
  }

  /** Schedules closing: the kernel has no operation on the socket any more. */
  finishLater(socket: UringSocket): void {
    this.#toFinish.push(socket);
    this.#onActivity();
  }

  #finish(): void {
    const sockets = this.#toFinish;
    this.#toFinish = [];
    for (const socket of sockets) {
      const { descriptor, log, hasLeft } = socket;
      socket.close();
      this.#sockets[socket.index] = undefined;
      this.#free.push(socket.index);
      if (hasLeft) log.left(descriptor);
      else log.closed(descriptor);
    }
    this.#onActivity();
  }
}

// One socket: sending, receiving, pausing, moving to another thread, ending.

export class UringSocket implements Transport, Departure {
  readonly index: number;
  readonly #sockets: UringSockets;
  readonly #handle: AcceptedHandle;
  readonly #core: AcceptorCore;
  readonly log: ConnectionLog;
  readonly descriptor: number;
  #connection: Connection | undefined;
  /** Bytes handed over and not yet taken by the kernel. */
  pendingBytes = 0;
  /** Position of a send that posts a completion only if it fails, or -1. */
  silentPlace = -1;
  hasFailedSilently = false;
  /** Bytes on their way to the kernel; 0 if none are. */
  #sending = 0;
  /** How many of them have left, and how many were last given to the kernel. */
  #sent = 0;
  #asked = 0;
  /** The location of the bytes: a send slot, or -1 for a pool buffer. */
  #sendSlot = -1;
  #buffer: Uint8Array | undefined;
  /** Bodies in between, and the message slot that describes them all. */
  #bodies: readonly BodyReference[] | undefined;
  #messageSlot = -1;
  /** What follows the current send: pool buffers. */
  readonly #queue: { readonly buffer: Uint8Array; readonly length: number }[] = [];
  /** Whether a receive is in progress, and whether it has brought nothing yet. */
  #receiving = false;
  #isUnheard = false;
  /**
   * Whether receives are multishot. These may hide how a unix socket ended, and errors of any
   * socket.
   */
  readonly #isMultishot: boolean;
  /**
   * Whether the kernel watches a socket with multishot receives for its end, and whether that has
   * come.
   */
  #watching = false;
  #endSeen = false;
  /** Destination of the current receive if not a buffer of the ring, and its message slot. */
  #place: BodyPlace | undefined;
  #bodySlot = -1;
  #paused = false;
  /** Bytes of the one receive that began before the pause and completed during it. */
  #stashed: Uint8Array | undefined;
  #stashedEnd = false;
  #ended = false;
  #ending = false;
  /** The socket moves no more bytes. */
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
    sockets: UringSockets,
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
    this.#isMultishot = MULTISHOT_RECEIVES && isTcp(this.descriptor);
  }

  /** Starts receiving. `bytes` were read earlier, in another thread or with a PROXY header. */
  open(connection: Connection, bytes?: Uint8Array): void {
    this.#connection = connection;
    this.#watch();
    if (bytes !== undefined) connection.onBytes(bytes, bytes.length);
    this.#receive(bytes !== undefined);
  }

  // --- bytes out ---------------------------------------------------------------------------------

  /** Sends one thing at a time. Returns true if the buffer may be reused at once. */
  send(buffer: Uint8Array, length: number): boolean {
    if (this.#gone) return true;
    this.pendingBytes += length;
    if (this.#sending > 0) {
      this.#queue.push({ buffer, length });
      return false;
    }
    const { ring, sendSlots, silent } = this.#sockets;
    this.#sending = length;
    this.#asked = length;
    this.#sent = 0;
    const slot = length <= SEND_SLOT_BYTES ? sendSlots.put(buffer, length) : -1;
    this.#sendSlot = slot;
    if (slot < 0) {
      this.#buffer = buffer;
      const { low, high } = addressOf(buffer);
      ring.send(this.descriptor, low, high, length, this.index, Kind.Send);
      return false;
    }
    const { low, high } = sendSlots.addresses[slot]!;
    // A completion would end the sleep that begins with the same system call.
    this.silentPlace = ring.sendNow(this.descriptor, low, high, length, this.index, Kind.Send);
    if (this.silentPlace >= 0) silent.push(this);
    else ring.send(this.descriptor, low, high, length, this.index, Kind.Send);
    return true;
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
    this.#sendSlot = -1;
    this.#buffer = buffer;
    this.#messageSlot = slot;
    this.#bodies = bodies;
    const { low, high } = messages.addresses[slot]!;
    ring.sendMessage(this.descriptor, low, high, this.index, Kind.Send);
    return true;
  }

  /** Returns the total length, or 0 if there are too many parts. */
  #addParts(slot: number, buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): number {
    const { messages } = this.#sockets;
    const start = length === 0 ? NOWHERE : addressOf(buffer);
    let from = 0;
    let total = 0;
    for (const { arena, handle, offset, length: bodyBytes, at } of bodies) {
      if (at > from) messages.add(slot, start, from, at - from);
      from = at;
      for (let done = 0; done < bodyBytes; done += place.length) {
        // Keep one part for the bytes before the next body or after the last.
        if (!messages.hasRoom(slot, 3)) return 0;
        arena.locate(handle, offset + done, bodyBytes - done, place);
        messages.add(slot, addressOf(place.bytes), place.at, place.length);
      }
      total += bodyBytes;
    }
    if (length > from) messages.add(slot, start, from, length - from);
    return total + length;
  }

  /** Whether the end of the current send has consequences. */
  get isAwaited(): boolean {
    return this.#ending || this.#gone || this.#queue.length > 0 || this.#connection!.waitsForDrain;
  }

  /** Treats the send as complete, unless its failure was reported. */
  onSentSilently(): void {
    if (this.silentPlace < 0 || this.hasFailedSilently) return;
    this.silentPlace = -1;
    this.#sent = this.#sending;
    this.#endSend();
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
    assert(this.#sent <= this.#sending, "the kernel takes no more than it was given");
    if (this.#sent === this.#sending) return false;
    // One part of a message has left, so the next may fit as well.
    if (sent === this.#asked) this.#sendRest();
    else if (!this.#sockets.awaitRoom(this.descriptor, this.index)) return false;
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
    const { sendSlots, messages } = this.#sockets;
    if (this.#bodies !== undefined) return messages.partAt(this.#messageSlot, this.#sent);
    const length = this.#sending - this.#sent;
    if (this.#sendSlot >= 0) return { ...sendSlots.address(this.#sendSlot, this.#sent), length };
    return { ...addressBehind(addressOf(this.#buffer!), this.#sent), length };
  }

  /** Releases the memory of a send that is over, and continues with what follows. */
  #endSend(): void {
    const { sendSlots, messages } = this.#sockets;
    const length = this.#sending;
    this.#sending = 0;
    this.pendingBytes -= length;
    if (this.#sendSlot >= 0) sendSlots.give(this.#sendSlot);
    else buffers.give(this.#buffer!);
    this.#buffer = undefined;
    if (this.#bodies !== undefined) {
      messages.give(this.#messageSlot);
      for (const { arena, handle } of this.#bodies) arena.unpin(handle);
      this.#bodies = undefined;
    }
    if (this.#sent < length) this.#disconnect();
    if (this.#gone) this.#finishIfIdle();
    else if (this.#queue.length > 0) this.#sendNext();
    else if (this.#ending) this.#disconnect();
    else this.#connection!.onDrain();
  }

  #sendNext(): void {
    const { buffer, length } = this.#queue.shift()!;
    // It is counted again when it is sent.
    this.pendingBytes -= length;
    if (this.send(buffer, length)) buffers.give(buffer);
  }

  // --- bytes in ----------------------------------------------------------------------------------

  #receive(likely: boolean): void {
    if (this.#receiving || this.#ended || !this.#mayDeliver) return;
    // `deliver` starts the next receive, so the stash never exceeds what one receive brings.
    if (this.#stashed !== undefined) return;
    this.#receiving = true;
    this.#isUnheard = true;
    if (this.#connection!.awaitsBody && this.#receiveBody(likely)) return;
    this.#sockets.ring.receive(this.descriptor, likely, this.#isMultishot, this.index, Kind.Receive);
  }

  /** Receives part of a large body directly into its arena. Returns false if it cannot. */
  #receiveBody(likely: boolean): boolean {
    const { ring, messages } = this.#sockets;
    if (messages.areTaken) return false;
    const place = (this.#place ??= new BodyPlace());
    if (!this.#connection!.findBodyRoom(place)) return false;
    const slot = messages.take();
    this.#bodySlot = slot;
    messages.add(slot, addressOf(place.bytes), place.at, place.length);
    if (this.#connection!.bodyEndsAfter(place.length)) messages.addTrailer(slot);
    // The kernel writes there until the receive completes, whatever happens to the job.
    place.arena!.pin(place.handle);
    const { low, high } = messages.addresses[slot]!;
    ring.receiveMessage(this.descriptor, low, high, likely, this.index, Kind.ReceiveBody);
    return true;
  }

  onBodyReceived(result: number, hasMore: boolean): void {
    const { messages } = this.#sockets;
    const { arena, handle, length } = this.#place!;
    const slot = this.#bodySlot;
    this.#receiving = false;
    this.#isUnheard = false;
    arena!.unpin(handle);
    if (!this.#gone && result > 0) this.#onBodyBytes(result, length, slot, hasMore);
    messages.give(slot);
    if (this.#gone) this.#finishIfIdle();
    else if (result <= 0) this.onReceived(result, undefined, false, false);
  }

  #onBodyBytes(result: number, length: number, slot: number, hasMore: boolean): void {
    this.#connection!.onBodyStored(Math.min(result, length));
    if (result > length) this.#onBytes(result - length, this.#sockets.messages.trailer(slot), hasMore);
    else this.#receive(hasMore);
  }

  /** Handles bytes, the end or an error. `goesOn` means that the receive continues. */
  onReceived(result: number, bytes: Uint8Array | undefined, hasMore: boolean, goesOn: boolean): void {
    this.#receiving = goesOn;
    this.#isUnheard = false;
    if (this.#isLeaving) {
      this.#keep(result, bytes);
      return;
    }
    if (this.#gone) this.#finishIfIdle();
    else if (result > 0 && bytes !== undefined) this.#onBytes(result, bytes, hasMore);
    else if (result === 0) {
      this.#stashedEnd = this.#paused || this.#stashed !== undefined;
      if (!this.#stashedEnd) this.#end();
    } else if (result === -ENOBUFS || result === -EAGAIN || result === -EINTR) this.#receive(true);
    else this.#disconnect();
  }

  #onBytes(length: number, bytes: Uint8Array, hasMore: boolean): void {
    // They wait for the end of the pause, or behind bytes of an earlier one.
    if (this.#paused || this.#stashed !== undefined) {
      this.#stash(bytes, length);
      return;
    }
    this.#connection!.onBytes(bytes, length);
    if (this.#endSeen) this.#sockets.deliverLater(this);
    // The next completion of a multishot receive reports the end, and precedes those of other
    // clients.
    if (hasMore && !this.#receiving && length < BUFFER_BYTES) this.#lookForEnd();
    if (!this.#receiving) this.#receive(hasMore || length === BUFFER_BYTES);
  }

  #stash(bytes: Uint8Array, length: number): void {
    const before = this.#stashed;
    const received = bytes.subarray(0, length);
    this.#stashed = before === undefined ? received.slice() : Buffer.concat([before, received]);
    assert(this.#stashed.length <= RECEIVE_BYTES_MAX, "a pause stashes at most one receive");
  }

  /**
   * Checks for an end of stream after a buffer that was not full, where it is likely. Later
   * completions of this batch carry other clients' bytes, and the end has to be processed before
   * those. A receive would report it only in the next turn. But one that has brought nothing yet
   * does report it, and may have taken the last bytes already, in a completion of the next batch.
   */
  #lookForEnd(): void {
    if (this.#isUnheard || this.#ended || !this.#mayDeliver) return;
    const next = peek(this.descriptor);
    if (next === 0) this.#end();
    else if (next < 0 && next !== -EAGAIN) this.#disconnect();
  }

  #watch(): void {
    if (!this.#isMultishot || this.#watching || this.#endSeen) return;
    this.#watching = true;
    this.#sockets.ring.pollEnd(this.descriptor, this.index, Kind.End);
  }

  /** Handles the end of the stream or an error, after the bytes of this batch. */
  onEndSeen(result: number): void {
    this.#watching = false;
    this.#endSeen = result !== -ECANCELED;
    if (this.#isLeaving) this.#readyIfIdle();
    else if (this.#gone) this.#finishIfIdle();
    else this.#sockets.deliverLater(this);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#connection!.onEnd();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (this.#stashed === undefined && !this.#stashedEnd && !this.#endSeen) this.#receive(true);
    else this.#sockets.deliverLater(this);
  }

  /**
   * Delivers the bytes that arrived during the pause. If the connection moves, the bytes go with
   * it; if the move fails, they are delivered then.
   */
  deliver(): void {
    if (!this.#mayDeliver) return;
    const bytes = this.#stashed;
    this.#stashed = undefined;
    if (bytes !== undefined) this.#connection!.onBytes(bytes, bytes.length);
    // The call may have paused it again.
    if (this.#stashedEnd && this.#mayDeliver) this.#end();
    if (this.#endSeen) this.#lookForEnd();
    this.#receive(true);
  }

  get #mayDeliver(): boolean {
    return !this.#paused && !this.#gone && !this.#isLeaving;
  }

  // --- moving to another thread ------------------------------------------------------------------

  get departure(): Departure | undefined {
    return this.stays ? undefined : this;
  }

  begin(onReady: () => void): void {
    this.#isLeaving = true;
    this.#onReady = onReady;
    this.#cancelInput();
    this.#readyIfIdle();
  }

  #cancelInput(): void {
    const { ring } = this.#sockets;
    if (this.#receiving) ring.cancel(this.index, Kind.Receive, this.index, Kind.Cancel);
    if (this.#watching) ring.cancel(this.index, Kind.End, this.index, Kind.Cancel);
  }

  #readyIfIdle(): void {
    if (this.#receiving || this.#watching) return;
    const onReady = this.#onReady;
    this.#onReady = undefined;
    onReady?.();
  }

  /** Keeps the bytes that a receive brings before its cancellation. */
  #keep(result: number, bytes: Uint8Array | undefined): void {
    if (result > 0 && bytes !== undefined) this.#stash(bytes, result);
    else if (result === 0) this.#stashedEnd = true;
    else this.#failed = ![ENOBUFS, EINTR, EAGAIN, ECANCELED].includes(-result);
    this.#readyIfIdle();
  }

  cancel(): void {
    this.#isLeaving = false;
    this.#watch();
    if (this.#failed) this.#disconnect();
    else if (this.#stashed === undefined && !this.#stashedEnd) this.#receive(true);
    else this.#sockets.deliverLater(this);
  }

  complete(): HandedOver | undefined {
    if (this.#failed || this.#stashedEnd) return undefined;
    if (this.#stashed !== undefined && this.#stashed.length > MIGRATION_BYTES_MAX) return undefined;
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
    // A multishot receive does not see the shutdown of a socket that has been reset.
    if (this.#isMultishot) this.#cancelInput();
    this.#finishIfIdle();
  }

  #finishIfIdle(): void {
    if (!this.#destroyed || this.#receiving || this.#watching || this.#sending > 0 || this.#finished) return;
    this.#finished = true;
    this.#sockets.finishLater(this);
  }

  /** Closes the socket. Called when the kernel has no operation on it. */
  close(): void {
    this.#handle.close();
  }
}
