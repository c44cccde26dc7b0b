// The waiting sessions of a shard, and which has waited longest.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Tube } from "../tubes/tube.ts";
import type { ClientEffects } from "./effects.ts";
import { type Session, Waiting, Watch } from "./session.ts";

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

class WideWaiters {
  readonly #watches: Watch[];

  /**
   * Takes the first member right away: V8 reserves room for 17 elements in an array created empty.
   */
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

// The waiters of one tube. `Waiters` keeps such objects by tube, so that tubes need not know
// sessions, which know tubes.

export class TubeWaiters {
  /** Waiting sessions with few watched tubes, longest wait first. */
  first: Watch | undefined;
  last: Watch | undefined;
  /** Sessions with many watched tubes, waiting or not; created for the first one. */
  wide: WideWaiters | undefined;
  /** Sessions that wait for a batch to fill, longest wait first; created for the first one. */
  fills: Set<Session> | undefined;
  /**
   * With fewer ready jobs than this in this tube, none of those waits is examined; Infinity while
   * one is told.
   */
  fillsAt = 0;

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

// The waiting sessions of a shard: which ones wait for jobs of a tube, and which has waited
// longest.
//
// A session that watches few tubes (narrow) is linked into the list of each. One that watches many
// (wide) is in a single list of all such sessions, and among the `WideWaiters` of each of its
// tubes.

/** Maximum number of watched tubes for which a waiting session is linked into the list of each. */
const NARROW_WATCHES_MAX = 8;
/** Number of wide waiters to check in the order of their waits before sorting the tube's own. */
const WIDE_GLANCES = 16;

export class Waiters {
  /** Number of sessions that wait. */
  size = 0;
  /** Number of those that wait on this shard alone. */
  alone = 0;
  /** Number of those that wait for a batch to fill. They get no job; their acceptor takes it. */
  fills = 0;
  /** Number of watches of all sessions. */
  watches = 0;
  /** Number of shares of all sessions: see tube-turns.ts. */
  shares = 0;
  readonly #effects: ClientEffects;
  /**
   * Waiters by tube index; undefined for a tube that no session has waited for, or watches wide.
   */
  readonly #ofTube: (TubeWaiters | undefined)[] = [];
  #wideFirst: Session | undefined;
  #wideLast: Session | undefined;
  #nextOrder = 0;

  constructor(effects: ClientEffects) {
    this.#effects = effects;
  }

  // --- watches --------------------------------------------------------------------------------

  watch(session: Session, tube: Tube): void {
    assert(session.waiting === Waiting.No, "a session that waits keeps its watches");
    if (CHECKED) assert(!session.watches.has(tube), "a session watches a tube once");
    const watch = new Watch(session, tube);
    session.watches.set(tube, watch);
    tube.watching++;
    this.watches++;
    // Link it at once, so that the first wait of a session with very many tubes has nothing left to
    // link.
    if (session.watches.size > NARROW_WATCHES_MAX) this.#linkWide(watch);
    else session.remember(watch);
  }

  unwatch(watch: Watch): void {
    const { session, tube } = watch;
    assert(session.waiting === Waiting.No, "a session that waits keeps its watches");
    assert(tube.watching > 0, "each watcher of a tube is counted");
    session.watches.delete(tube);
    if (!watch.linkedWide) {
      session.forget(watch);
    } else {
      const wide = this.of(tube)?.wide;
      assert(wide !== undefined, "a wide waiter's tube has wide waiters");
      wide.remove(watch);
    }
    tube.watching--;
    this.watches--;
    assert(this.watches >= tube.watching, "each watch is counted");
    if (CHECKED)
      assert(tube.watching > 0 || this.of(tube)?.first === undefined, "an unwatched tube has no waiter");
    // Another tube may reuse its index.
    if (tube.watching === 0) this.#ofTube[tube.index] = undefined;
  }

  // --- waits ----------------------------------------------------------------------------------

  /** Starts a session's wait, behind all others; the caller sets its timer. */
  begin(session: Session, waiting: Waiting, timeoutAtMs: number): void {
    // Linking it twice would turn the lists of waiters into circles, and a walk through them would
    // never end.
    assert(session.waiting === Waiting.No, "a session waits once");
    if (CHECKED) assert(session.timeoutAtMs === Number.POSITIVE_INFINITY, "only a wait has a timeout");
    session.waiting = waiting;
    this.size++;
    if (waiting === Waiting.Alone) this.alone++;
    session.timeoutAtMs = timeoutAtMs;
    session.waitOrder = this.#nextOrder++;
    session.linkedInTubes = session.fillsAt > 0 || session.watches.size <= NARROW_WATCHES_MAX;
    if (session.fillsAt > 0) this.#beginFill(session);
    else if (session.linkedInTubes)
      for (const watch of session.watches.values()) this.#openOf(watch.tube).append(watch);
    else this.#beginWide(session);
  }

  /** Ends a session's wait; the caller sets its timer. */
  end(session: Session): void {
    assert(session.waiting !== Waiting.No, "only a wait that has begun ends");
    this.size--;
    if (session.waiting === Waiting.Alone) this.alone--;
    assert(this.alone >= 0 && this.alone <= this.size, "waits are counted");
    session.waiting = Waiting.No;
    session.timeoutAtMs = Number.POSITIVE_INFINITY;
    if (session.fillsAt > 0) this.#endFill(session);
    else if (session.linkedInTubes)
      for (const watch of session.watches.values()) this.#openOf(watch.tube).remove(watch);
    else this.#endWide(session);
  }

  longest(tube: Tube): Session | undefined {
    const waiters = this.#ofTube[tube.index];
    if (waiters === undefined) return undefined;
    const narrow = waiters.first?.session;
    assert(narrow === undefined || narrow.waiting !== Waiting.No, "the first waiter of a tube waits");
    if (waiters.wide === undefined) return narrow;
    const wide = this.#longestWide(tube, waiters.wide);
    return wide === undefined || (narrow !== undefined && narrow.waitOrder < wide.waitOrder) ? narrow : wide;
  }

  /**
   * Returns how many sessions wait for a job of the tube, without those whose wait another shard
   * has ended.
   */
  count(tube: Tube): number {
    let count = 0;
    const waiters = this.of(tube);
    for (let watch = waiters?.first; watch !== undefined; watch = watch.next)
      if (this.#waits(watch.session)) count++;
    const wide = waiters?.wide;
    for (let position = 0; wide !== undefined && position < wide.size; position++) {
      const { session } = wide.at(position);
      if (!session.linkedInTubes && this.#waits(session)) count++;
    }
    if (waiters?.fills !== undefined) for (const session of waiters.fills) if (this.#waits(session)) count++;
    return count;
  }

  /** Returns the waiters of the tube, if it has had any. */
  of(tube: Tube): TubeWaiters | undefined {
    return this.#ofTube[tube.index];
  }

  #openOf(tube: Tube): TubeWaiters {
    return (this.#ofTube[tube.index] ??= new TubeWaiters());
  }

  #waits(session: Session): boolean {
    return (
      session.waiting === Waiting.Alone ||
      (session.waiting === Waiting.Shared && this.#effects.stillWaiting(session))
    );
  }

  // --- batches that fill ----------------------------------------------------------------------

  #beginFill(session: Session): void {
    this.fills++;
    for (const { tube } of session.watches.values()) {
      const waiters = this.#openOf(tube);
      waiters.fills ??= new Set();
      waiters.fills.add(session);
    }
  }

  /** Lets the tubes of a session examine their waits again, which they don't while it is told. */
  release(session: Session): void {
    assert(session.isTold && session.fillsAt > 0, "only a session that was told is waited for");
    session.isTold = false;
    for (const { tube } of session.watches.values()) {
      const waiters = this.#openOf(tube);
      if (waiters.fillsAt === Number.POSITIVE_INFINITY) waiters.fillsAt = 0;
    }
  }

  #endFill(session: Session): void {
    this.fills--;
    assert(this.fills >= 0, "waits for batches are counted");
    if (session.isTold) this.release(session);
    session.fillsAt = 0;
    session.lingerMs = Number.POSITIVE_INFINITY;
    session.lingerEndsAtMs = Number.POSITIVE_INFINITY;
    for (const { tube } of session.watches.values()) this.#openOf(tube).fills?.delete(session);
  }

  // --- sessions with many tubes ---------------------------------------------------------------

  #beginWide(session: Session): void {
    assert(this.#wideLast !== session, "a wide waiter is linked once");
    for (let watch = session.unlinked.pop(); watch !== undefined; watch = session.unlinked.pop())
      this.#linkWide(watch);
    session.previousWide = this.#wideLast;
    session.nextWide = undefined;
    if (this.#wideLast === undefined) this.#wideFirst = session;
    else this.#wideLast.nextWide = session;
    this.#wideLast = session;
  }

  #endWide(session: Session): void {
    assert(
      (session.previousWide === undefined) === (this.#wideFirst === session),
      "a wide waiter leaves the list that it is in",
    );
    assert(
      (session.nextWide === undefined) === (this.#wideLast === session),
      "only the last wide waiter has none after it",
    );
    if (session.previousWide === undefined) this.#wideFirst = session.nextWide;
    else session.previousWide.nextWide = session.nextWide;
    if (session.nextWide === undefined) this.#wideLast = session.previousWide;
    else session.nextWide.previousWide = session.previousWide;
    session.nextWide = undefined;
    session.previousWide = undefined;
  }

  /** Adds a watch to its tube's wide waiters, behind all current waits. */
  #linkWide(watch: Watch): void {
    const { session, tube } = watch;
    assert(!watch.linkedWide, "a watch is once among the wide waiters");
    const order = session.waiting === Waiting.No ? this.#nextOrder : session.waitOrder;
    const waiters = this.#openOf(tube);
    if (waiters.wide === undefined) waiters.wide = new WideWaiters(watch, order);
    else waiters.wide.add(watch, order);
  }

  /**
   * Returns the session that has waited longest for the tube. If all workers watch the same tubes,
   * that is the first of all waits. Checking it is cheaper than sorting the tube's own waiters,
   * which have all started new waits since its last job.
   */
  #longestWide(tube: Tube, waiters: WideWaiters): Session | undefined {
    if (waiters.size === 0) return undefined;
    let wide = this.#wideFirst;
    for (let glances = 0; wide !== undefined && glances < WIDE_GLANCES; glances++) {
      if (wide.watches.has(tube)) return wide;
      wide = wide.nextWide;
    }
    return wide === undefined ? undefined : waiters.longestWaiting();
  }
}
