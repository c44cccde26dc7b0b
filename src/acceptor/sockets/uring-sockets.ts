// Sockets through io_uring: all that the connections of a turn send and receive goes to the kernel in one
// call.
//
// node:net accepts the connections and sets their options; their bytes go past it. What the thread's event
// loop has to do besides (new connections, orders of the main thread, the doorbell) shows in its own
// descriptor, which the ring watches while the thread sleeps.

import { closeDescriptor, eventLoopDescriptor } from "../../uring/kernel.ts";
import { MessageSlots } from "../../uring/message-slots.ts";
import { RoomWatch } from "../../uring/room-watch.ts";
import { Uring } from "../../uring/uring.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { MovedConnection } from "../migration/moved-connection.ts";
import type { ConnectionLog } from "../state/connection-log.ts";
import { SendSlots } from "./send-slots.ts";
import type { Serving } from "./serving.ts";
import { type AcceptedHandle, Kind, UringSocket } from "./uring-socket.ts";

/** Messages to and from arenas that may be under way; with more, bytes go through buffers. */
const MESSAGES = 512;

export class UringSockets {
  readonly ring: Uring = new Uring();
  readonly stages: SendSlots = new SendSlots();
  readonly messages: MessageSlots = new MessageSlots(MESSAGES);
  /** Another thread could not be woken in its ring: the word of its doorbell. */
  onNotRung: (word: number) => void = () => {};
  readonly #cores: readonly AcceptorCore[];
  readonly #onActivity: () => void;
  readonly #eventLoop = eventLoopDescriptor();
  #watchesEventLoop = false;
  /** Sockets that were full; the ring watches it as it does the event loop, while there are some. */
  readonly #room = new RoomWatch();
  #watchesRoom = false;
  readonly #sockets: (UringSocket | undefined)[] = [];
  readonly #free: number[] = [];
  /** Those with a send that tells only of its failure. */
  #silent: UringSocket[] = [];
  #toFinish: UringSocket[] = [];
  #toDeliver: UringSocket[] = [];

  /**
   * Throws KernelError where io_uring can't be had. `onActivity` is called whenever bytes or an end have
   * come.
   */
  constructor(cores: readonly AcceptorCore[], onActivity: () => void) {
    this.#cores = cores;
    this.#onActivity = onActivity;
  }

  /** Whether the event loop has something to do, as the last turn or wait has told. */
  get eventLoopIsReady(): boolean {
    return !this.#watchesEventLoop;
  }

  /** Takes over a handle that one of the acceptors has accepted, and serves it. */
  serve(accepted: unknown, { core, entry, peer, listener, keepAlive, log }: Serving): void {
    const handle = accepted as AcceptedHandle;
    const index = this.#free.pop() ?? this.#sockets.length;
    const socket = new UringSocket(this, index, handle, core, log);
    socket.stays = entry !== undefined;
    const connection = core.connect(entry?.wrap(socket) ?? socket, entry?.gate, peer, listener);
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
    socket.open(connection);
    this.#onActivity();
  }

  /** Wakes a thread that sleeps in another ring. */
  ringIn(descriptor: number, word: number): void {
    if (!this.ring.tell(descriptor, word, Kind.Ring)) this.onNotRung(word);
  }

  /** Goes on with a connection that has come from another thread. */
  land(moved: MovedConnection, core: AcceptorCore, log: ConnectionLog): void {
    const fd = moved.descriptor;
    const index = this.#free.pop() ?? this.#sockets.length;
    const socket = new UringSocket(this, index, { fd, close: () => closeDescriptor(fd) }, core, log);
    this.#sockets[index] = socket;
    log.arrived(fd);
    socket.open(core.land(moved, socket), moved.bytes);
    this.#onActivity();
  }

  /** Gives the kernel what there is to send, takes what has come. */
  turn(): void {
    this.#watchOthers();
    this.ring.submit();
    this.#reap();
    for (let each = 0; each < this.#cores.length; each++) this.#cores[each]!.haveRead();
  }

  /** Gives it too, and sleeps until there is something for the sockets or for the event loop, at most `timeoutMs`. */
  wait(timeoutMs: number): void {
    this.#watchOthers();
    // What sockets are still to do ends no sleep, nor does a send that tells only of its failure.
    const hasMore = this.#toDeliver.length > 0 || this.#toFinish.length > 0;
    if (hasMore || this.#silent.some((socket) => socket.isAwaited)) this.ring.submit();
    else this.ring.submitAndWait(timeoutMs);
  }

  #watchOthers(): void {
    if (!this.#watchesEventLoop) {
      this.#watchesEventLoop = true;
      this.ring.pollIn(this.#eventLoop, 0, Kind.EventLoop);
    }
    if (this.#watchesRoom || this.#room.isEmpty) return;
    this.#watchesRoom = true;
    this.ring.pollIn(this.#room.descriptor, 0, Kind.Room);
  }

  /** Takes what a wait has brought; returns how many completions there were. */
  takeCompletions(): number {
    return this.#reap();
  }

  #reap(): number {
    if (this.#silent.length > 0) this.#settle();
    const taken = this.ring.reap(this.#complete);
    if (this.#toDeliver.length > 0) this.#deliver();
    if (this.#toFinish.length > 0) this.#finish();
    return taken;
  }

  readonly #complete = (index: number, kind: number, result: number, flags: number): void => {
    if (kind === Kind.EventLoop) {
      this.#watchesEventLoop = false;
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
    else if (kind === Kind.ReceiveBody) {
      socket.onBodyReceived(result, this.ring.hasMore(flags));
      this.#onActivity();
    } else if (kind !== Kind.Cancel) {
      socket.onReceived(result, this.ring.bufferOf(flags), this.ring.hasMore(flags));
      this.#onActivity();
    }
  };

  readonly #onRoom = (index: number): void => this.#sockets[index]!.onRoom();

  /** The socket is to be told when it has room for bytes again; false if that can't be had. */
  awaitRoom({ descriptor, index }: UringSocket): boolean {
    return this.#room.add(descriptor, index);
  }

  /** The socket has a send under way that tells only of its failure. */
  sendsSilently(socket: UringSocket): void {
    this.#silent.push(socket);
  }

  /**
   * Sends that the kernel has taken and not told of are done. That comes before the completions: what a client sends next
   * finds its replies gone.
   */
  #settle(): void {
    const sockets = this.#silent;
    this.#silent = [];
    // First: what one of them does now may have others submitted.
    const { toldPlace } = this.ring;
    this.ring.look(this.#noteFailure);
    for (const socket of sockets) {
      if (socket.silentPlace <= toldPlace) socket.onSentSilently();
      else this.#silent.push(socket);
    }
  }

  readonly #noteFailure = (index: number, kind: number): void => {
    if (kind === Kind.Send) this.#sockets[index]!.hasFailedSilently = true;
  };

  /** The socket may go on with what came during its pause, but not within the call that ended the pause. */
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

  /** The socket has nothing under way in the kernel any more and can be closed. */
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
