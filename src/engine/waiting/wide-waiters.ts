// The sessions with many watched tubes that wait for jobs of one tube. A put thus need not examine
// sessions that wait for other tubes, and a reserve need not touch every tube that its session
// watches.
//
// A wait that begins or ends changes nothing here. The members form a heap by `widePlace`: the
// order of their session's wait when the heap last checked, which is never later than that of its
// current wait. If the first member's place is still true, its session has waited longest of all.
// Otherwise it gets its true place, and the next member is checked. A session that does not wait
// leaves the heap when it reaches the top, goes to the session's `unlinked`, and returns before its
// next wait begins. All this costs at most one correction for each wait and tube, and only for
// tubes that get jobs.

import { assert } from "../../base/assert.ts";
import { type Session, Waiting, type Watch } from "./session.ts";

export class WideWaiters {
  readonly #watches: Watch[];

  /** `watch` is the first member, because V8 gives an array that starts empty room for 17. */
  constructor(watch: Watch, waitOrder: number) {
    this.#watches = [watch];
    watch.widePlace = waitOrder;
    watch.widePosition = 0;
  }

  get size(): number {
    return this.#watches.length;
  }

  /** Returns a member by position, in no particular order; its session need not be waiting. */
  at(position: number): Watch {
    assert(position < this.#watches.length, "a position is within the heap");
    return this.#watches[position]!;
  }

  /** Adds a watch with the order of its session's wait, or with one before its next. */
  add(watch: Watch, waitOrder: number): void {
    watch.widePlace = waitOrder;
    this.#watches.push(watch);
    this.#siftUp(this.#watches.length - 1, watch);
  }

  /** Removes a watch; the caller then sets its `widePosition`. */
  remove(watch: Watch): void {
    const position = watch.widePosition;
    assert(this.#watches[position] === watch, "a wide waiter leaves the tube that it waits for");
    const last = this.#watches.pop()!;
    if (last === watch) return;
    if (position > 0 && last.widePlace < this.#watches[(position - 1) >> 1]!.widePlace)
      this.#siftUp(position, last);
    else this.#siftDown(position, last);
  }

  /** Returns the session that has waited longest. */
  longestWaiting(): Session | undefined {
    for (let watch = this.#watches[0]; watch !== undefined; watch = this.#watches[0]) {
      const { session } = watch;
      assert(watch.widePosition === 0, "the first of the heap knows its place");
      if (session.waiting === Waiting.No || session.linkedInTubes) {
        this.remove(watch);
        session.remember(watch);
      } else if (watch.widePlace === session.waitOrder) {
        return session;
      } else {
        assert(watch.widePlace < session.waitOrder, "an entry is never later than its wait");
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
