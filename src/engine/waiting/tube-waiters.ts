// The waiters of one tube. `Waiters` keeps such objects by tube, so that tubes need not know
// sessions, which know tubes.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Watch } from "./session.ts";
import type { WideWaiters } from "./wide-waiters.ts";

export class TubeWaiters {
  /** Waiting sessions with few watched tubes, longest wait first. */
  first: Watch | undefined;
  last: Watch | undefined;
  /** Sessions with many watched tubes, waiting or not; created for the first one. */
  wide: WideWaiters | undefined;

  append(watch: Watch): void {
    assert(this.last !== watch, "a watch is linked once");
    if (CHECKED) assert(this.last?.next === undefined, "nothing follows the last waiter");
    watch.previous = this.last;
    watch.next = undefined;
    if (this.last === undefined) this.first = watch;
    else this.last.next = watch;
    this.last = watch;
  }

  remove(watch: Watch): void {
    assert(
      (watch.previous === undefined) === (this.first === watch),
      "a watch leaves the list that it is in",
    );
    assert((watch.next === undefined) === (this.last === watch), "only the last waiter has none after it");
    if (CHECKED)
      assert(watch.previous === undefined || watch.previous.next === watch, "the waiter before links back");
    if (CHECKED)
      assert(watch.next === undefined || watch.next.previous === watch, "the waiter after it links back");
    if (watch.previous === undefined) this.first = watch.next;
    else watch.previous.next = watch.next;
    if (watch.next === undefined) this.last = watch.previous;
    else watch.next.previous = watch.previous;
  }
}
