// Sockets through io_uring: one system call per turn carries the sends and receives of all
// connections.
//
// node:net accepts the connections and sets their options, but their bytes bypass it. The event
// loop's other work (new connections, orders of the main thread, the doorbell) makes its own
// descriptor readable, which the ring watches while the thread sleeps.

import { closeDescriptor, eventLoopDescriptor } from "../../uring/kernel.ts";
import { MessageSlots, SendSlots } from "../../uring/message-slots.ts";
import { RoomWatch } from "../../uring/room-watch.ts";
import { CQE_MORE, CQE_SOCK_NONEMPTY, Uring } from "../../uring/uring.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { MovedConnection } from "../migration/client-state.ts";
import type { AcceptedHandle, ConnectionContext, ConnectionLog } from "./listener.ts";
import { Kind, UringSocket } from "./uring-socket.ts";

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
  #watchesEventLoop = false;
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

  /** Whether the event loop has work, as of the last turn or wait. */
  get eventLoopIsReady(): boolean {
    return !this.#watchesEventLoop;
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
    this.#watchOthers();
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
    this.#watchOthers();
    // Don't sleep while sockets have scheduled work. The end of a silent send would not end the
    // sleep either.
    const hasMore = this.#toDeliver.length > 0 || this.#toFinish.length > 0;
    if (hasMore || this.#awaitsSent()) this.ring.submit();
    else this.ring.submitAndWait(timeoutMs);
  }

  #awaitsSent(): boolean {
    for (const socket of this.silent) if (socket.isAwaited) return true;
    return false;
  }

  #watchOthers(): void {
    if (!this.#watchesEventLoop) {
      this.#watchesEventLoop = true;
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
    else if (kind === Kind.End) socket.onEndSeen(result);
    else if (kind === Kind.ReceiveBody) {
      socket.onBodyReceived(result, (flags & CQE_SOCK_NONEMPTY) !== 0);
      this.#hasReceived = true;
    } else if (kind !== Kind.Cancel) {
      const bytes = this.ring.bufferOf(flags);
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
    // Read this first: finishing a send may submit others.
    const { settledPlace } = this.ring;
    this.ring.look(Kind.Send, this.#noteFailure);
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
