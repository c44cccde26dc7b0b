// Reports when full sockets have room again. It uses an epoll instance, because io_uring cannot
// report that.
//
// A poll of io_uring, and the one inside a send, always includes the end of the other side
// (POLLRDHUP). Once a client has half-closed, it is ready at once, with room or without. The kernel
// would then retry the send again and again and finally block one of its threads in it. epoll
// reports only room and errors.

import { closeDescriptor, epollControl, epollCreate, epollLook, map } from "./kernel.ts";

const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLOUT = 0x4;
/**
 * struct epoll_event is packed only on x86-64: `events`, then 64 bits of user data. In int32 words.
 */
const [EVENT_WORDS, DATA_WORD] = process.arch === "x64" ? [3, 1] : [4, 2];
/** Maximum number of events per call; the next call returns the rest. */
const EVENTS = 64;
/** The event for epoll_ctl follows the returned ones. */
const ASKED = EVENTS * EVENT_WORDS;

export class RoomWatch {
  /** Readable when a watched socket has room. */
  readonly descriptor: number = epollCreate();
  readonly #memory = map((EVENTS + 1) * EVENT_WORDS * 4);
  readonly #words = new Int32Array(this.#memory.buffer);
  readonly #asked = this.#memory.pointer + BigInt(ASKED * 4);
  /** Number of watched sockets. */
  watched = 0;

  /**
   * Watches a socket, identified by `index`, until it has room or an error or is shut down. Returns
   * false if the kernel refuses.
   */
  add(descriptor: number, index: number): boolean {
    this.#words[ASKED] = EPOLLOUT;
    this.#words[ASKED + DATA_WORD] = index;
    this.#words[ASKED + DATA_WORD + 1] = descriptor;
    if (epollControl(this.descriptor, EPOLL_CTL_ADD, descriptor, this.#asked) !== 0) return false;
    this.watched++;
    return true;
  }

  /** Reports some of the sockets that have room and stops watching them. */
  take(onRoom: (index: number) => void): void {
    const count = epollLook(this.descriptor, this.#memory.pointer, EVENTS);
    const indexes: number[] = [];
    for (let event = 0; event < count; event++) {
      const at = event * EVENT_WORDS + DATA_WORD;
      epollControl(this.descriptor, EPOLL_CTL_DEL, this.#words[at + 1]!, this.#asked);
      this.watched--;
      indexes.push(this.#words[at]!);
    }
    for (const index of indexes) onRoom(index);
  }

  close(): void {
    closeDescriptor(this.descriptor);
  }
}
