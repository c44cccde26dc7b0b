// Who waits for the jobs of one tube among the sessions with many watched tubes, so that a put need not look
// at sessions that wait for others, nor a reserve touch every tube that its session watches.
//
// A wait that begins or ends changes nothing here. The members are a heap by `widePlace`: the order of their
// session's wait when the heap last looked, which is never later than that of its wait now. So when the first
// member's place is still true, its session has waited longest of all; when it is not, it gets its true place
// and the next is looked at. A session that does not wait leaves the heap when it comes up, is remembered in
// the session's `unlinked`, and is back before its next wait begins. All this costs at most one correction
// for each wait and tube, and only for tubes that get jobs.

import { assert } from "../../base/assert.ts";
import { type Session, Waiting, type Watch } from "./session.ts";

export class WideWaiters {
  readonly #watches: Watch[];

  /** `watch` is the first member, because an array that begins empty has room for 17 in the end. */
  constructor(watch: Watch, waitOrder: number) {
    this.#watches = [watch];
    watch.widePlace = waitOrder;
    watch.widePosition = 0;
  }

  get size(): number {
    return this.#watches.length;
  }

  /** A member by position, in no particular order; its session need not wait. */
  at(position: number): Watch {
    return this.#watches[position]!;
  }

  /** Adds a watch with the order of its session's wait, or with one before its next. */
  add(watch: Watch, waitOrder: number): void {
    watch.widePlace = waitOrder;
    this.#watches.push(watch);
    this.#siftUp(this.#watches.length - 1, watch);
  }

  /** The caller says where the watch is from now on. */
  remove(watch: Watch): void {
    const position = watch.widePosition;
    assert(this.#watches[position] === watch, "a wide waiter leaves the tube that it waits for");
    const last = this.#watches.pop()!;
    if (last === watch) return;
    if (position > 0 && last.widePlace < this.#watches[(position - 1) >> 1]!.widePlace)
      this.#siftUp(position, last);
    else this.#siftDown(position, last);
  }

  /** The session that has waited longest. */
  longestWaiting(): Session | undefined {
    for (let watch = this.#watches[0]; watch !== undefined; watch = this.#watches[0]) {
      const { session } = watch;
      if (session.waiting === Waiting.No || session.linkedInTubes) {
        this.remove(watch);
        session.remember(watch);
      } else if (watch.widePlace === session.waitOrder) {
        return session;
      } else {
        watch.widePlace = session.waitOrder;
        this.#siftDown(0, watch);
      }
    }
    return undefined;
  }

  #siftUp(from: number, watch: Watch): void {
    const watches = this.#watches;
    let position = from;
    while (position > 0) {
      const parent = watches[(position - 1) >> 1]!;
      if (parent.widePlace <= watch.widePlace) break;
      watches[position] = parent;
      parent.widePosition = position;
      position = (position - 1) >> 1;
    }
    watches[position] = watch;
    watch.widePosition = position;
  }

  #siftDown(from: number, watch: Watch): void {
    const watches = this.#watches;
    let position = from;
    for (let child = from * 2 + 1; child < watches.length; child = position * 2 + 1) {
      if (child + 1 < watches.length && watches[child + 1]!.widePlace < watches[child]!.widePlace) child++;
      const below = watches[child]!;
      if (below.widePlace >= watch.widePlace) break;
      watches[position] = below;
      below.widePosition = position;
      position = child;
    }
    watches[position] = watch;
    watch.widePosition = position;
  }
}
