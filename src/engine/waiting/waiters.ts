// Who waits for the jobs of which tube, and who has waited longest.
//
// A session that watches few tubes is linked into the list of each (narrow); one that watches many stands in
// one list of all such sessions (wide), and among the `WideWaiters` of each of its tubes.

import { assert } from "../../base/assert.ts";
import type { Tube } from "../tubes/tube.ts";
import type { ClientEffects } from "./effects.ts";
import { type Session, Waiting, Watch } from "./session.ts";
import { TubeWaiters } from "./tube-waiters.ts";
import { WideWaiters } from "./wide-waiters.ts";

/** A session that watches more tubes than this is not linked into the list of each of them when it waits. */
const NARROW_WATCHES_MAX = 8;
/**
 * How many of the wide waiters are looked at in the order of their waits before the tube's own are put in
 * order.
 */
const WIDE_GLANCES = 16;

export class Waiters {
  /** Sessions that wait on this shard alone. */
  alone = 0;
  /** Watches of all sessions. */
  watches = 0;
  readonly #effects: ClientEffects;
  /** By the index of the tube; none where nobody has waited since somebody last began to watch it. */
  readonly #ofTube: (TubeWaiters | undefined)[] = [];
  #wideFirst: Session | undefined;
  #wideLast: Session | undefined;
  #nextOrder = 0;

  constructor(effects: ClientEffects) {
    this.#effects = effects;
  }

  // --- watches --------------------------------------------------------------------------------------------

  watch(session: Session, tube: Tube): void {
    assert(session.waiting === Waiting.No, "a session that waits keeps its watches");
    const watch = new Watch(session, tube);
    session.watches.set(tube, watch);
    tube.watching++;
    this.watches++;
    // At once, so that the first wait of a session with very many tubes has nothing left to link.
    if (session.watches.size > NARROW_WATCHES_MAX) this.#linkWide(watch);
    else session.remember(watch);
  }

  unwatch(watch: Watch): void {
    const { session, tube } = watch;
    assert(session.waiting === Waiting.No, "a session that waits keeps its watches");
    assert(tube.watching > 0, "who watches a tube is counted");
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
    // Its index may be another tube's next.
    if (tube.watching === 0) this.#ofTube[tube.index] = undefined;
  }

  // --- waits ----------------------------------------------------------------------------------------------

  /** The session begins to wait, behind all others; the caller sets its timer. */
  begin(session: Session, waiting: Waiting, timeoutAtMs: number): void {
    // Linking it twice would turn the lists of waiters into circles, and a walk through them would never end.
    assert(session.waiting === Waiting.No, "a session waits once");
    session.waiting = waiting;
    if (waiting === Waiting.Alone) this.alone++;
    session.timeoutAtMs = timeoutAtMs;
    session.waitOrder = this.#nextOrder++;
    session.linkedInTubes = session.watches.size <= NARROW_WATCHES_MAX;
    if (session.linkedInTubes)
      for (const watch of session.watches.values()) this.#openOf(watch.tube).append(watch);
    else this.#beginWide(session);
  }

  /** The session waits no more; the caller sets its timer. */
  end(session: Session): void {
    assert(session.waiting !== Waiting.No, "only a wait that has begun ends");
    if (session.waiting === Waiting.Alone) this.alone--;
    session.waiting = Waiting.No;
    session.timeoutAtMs = Number.POSITIVE_INFINITY;
    if (session.linkedInTubes)
      for (const watch of session.watches.values()) this.#openOf(watch.tube).remove(watch);
    else this.#endWide(session);
  }

  /** The session that has waited longest for a job of the tube. */
  longest(tube: Tube): Session | undefined {
    const waiters = this.of(tube);
    if (waiters === undefined) return undefined;
    const narrow = waiters.first?.session;
    if (waiters.wide === undefined) return narrow;
    const wide = this.#longestWide(tube, waiters.wide);
    return wide === undefined || (narrow !== undefined && narrow.waitOrder < wide.waitOrder) ? narrow : wide;
  }

  /** How many sessions wait for a job of the tube, and have not had their wait ended by another shard. */
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
    return count;
  }

  /** The waiters of the tube, if it has had any. */
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

  // --- sessions with many tubes ---------------------------------------------------------------------------

  #beginWide(session: Session): void {
    for (let watch = session.unlinked.pop(); watch !== undefined; watch = session.unlinked.pop())
      this.#linkWide(watch);
    session.previousWide = this.#wideLast;
    session.nextWide = undefined;
    if (this.#wideLast === undefined) this.#wideFirst = session;
    else this.#wideLast.nextWide = session;
    this.#wideLast = session;
  }

  #endWide(session: Session): void {
    if (session.previousWide === undefined) this.#wideFirst = session.nextWide;
    else session.previousWide.nextWide = session.nextWide;
    if (session.nextWide === undefined) this.#wideLast = session.previousWide;
    else session.nextWide.previousWide = session.previousWide;
    session.nextWide = undefined;
    session.previousWide = undefined;
  }

  /** Puts a watch among its tube's wide waiters, behind all who wait now. */
  #linkWide(watch: Watch): void {
    const { session, tube } = watch;
    const order = session.waiting === Waiting.No ? this.#nextOrder : session.waitOrder;
    const waiters = this.#openOf(tube);
    if (waiters.wide === undefined) waiters.wide = new WideWaiters(watch, order);
    else waiters.wide.add(watch, order);
  }

  /**
   * Where all workers watch the same tubes, however many, the first of the waits is the right one, and
   * finding it so costs less than to put the tube's own waiters in order, who have all waited anew since its
   * last job.
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
