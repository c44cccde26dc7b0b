// Tells when sockets that were full have room again: an epoll instance, since the ring can't be asked that.
//
// A poll of io_uring, a send's own one too, is always for the end of the other side as well (POLLRDHUP). Once a client has half-closed
// it is ready at once, room or not: the kernel tries a send again and again, and then has a thread of its own block in it. epoll tells of
// room alone, and of errors.

import { closeDescriptor, epollControl, epollCreate, epollLook, map } from "./kernel.ts";

const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLOUT = 0x4;
/** struct epoll_event is packed on x86-64 alone: `events`, then 64 bits of ours. In int32 words. */
const [EVENT_WORDS, DATA_WORD] = process.arch === "x64" ? [3, 1] : [4, 2];
/** Events of one look; there are others in the next. */
const EVENTS = 64;
/** What is asked for lies behind what is told. */
const ASKED = EVENTS * EVENT_WORDS;

export class RoomWatch {
  /** Readable when a socket that is watched has room. */
  readonly descriptor: number = epollCreate();
  readonly #memory = map((EVENTS + 1) * EVENT_WORDS * 4);
  readonly #words = new Int32Array(this.#memory.buffer);
  readonly #asked = this.#memory.pointer + BigInt(ASKED * 4);
  #watched = 0;

  /** Whether there is something to wait for. */
  get isEmpty(): boolean {
    return this.#watched === 0;
  }

  /** Watches a socket, for which `index` stands, until it has room or an error, or is shut down. False if the kernel refuses. */
  add(descriptor: number, index: number): boolean {
    this.#words[ASKED] = EPOLLOUT;
    this.#words[ASKED + DATA_WORD] = index;
    this.#words[ASKED + DATA_WORD + 1] = descriptor;
    if (epollControl(this.descriptor, EPOLL_CTL_ADD, descriptor, this.#asked) !== 0) return false;
    this.#watched++;
    return true;
  }

  /** Hands over some of the sockets that have room; they are not watched any more. */
  take(onRoom: (index: number) => void): void {
    const count = epollLook(this.descriptor, this.#memory.pointer, EVENTS);
    const indexes: number[] = [];
    for (let event = 0; event < count; event++) {
      const at = event * EVENT_WORDS + DATA_WORD;
      epollControl(this.descriptor, EPOLL_CTL_DEL, this.#words[at + 1]!, this.#asked);
      this.#watched--;
      indexes.push(this.#words[at]!);
    }
    for (const index of indexes) onRoom(index);
  }

  close(): void {
    closeDescriptor(this.descriptor);
  }
}
