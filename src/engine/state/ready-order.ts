// The order of a session's ready tubes, and the log of tubes that keeps it up to date.

import { assert, CHECKED } from "../../base/assert.ts";
import { type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { Tube } from "../tubes/tube.ts";

// A log of tubes whose best job became better, for sessions that keep their tubes in an order
// (`ReadyOrder`).

/** Number of entries to keep. A session that missed more rebuilds its order. */
const BETTER_TUBES_KEPT = 4096;

export class BetterTubes {
  /**
   * Number of sessions that read the log. Callers check this first and record nothing without
   * readers.
   */
  followers = 0;
  /** Number of entries so far. */
  noted = 0;
  readonly #better: Tube[] = [];

  note(tube: Tube): void {
    this.#better[this.noted++ % BETTER_TUBES_KEPT] = tube;
  }

  /** Returns the tube of an entry, one of the latest BETTER_TUBES_KEPT. */
  at(entry: number): Tube {
    assert(
      entry < this.noted && entry >= this.noted - BETTER_TUBES_KEPT,
      "only entries that are kept are read",
    );
    return this.#better[entry % BETTER_TUBES_KEPT]!;
  }

  /** Stops a session's reading of the log. */
  unfollow(): void {
    assert(this.followers > 0, "a session that stops reading was counted");
    this.followers--;
    // The log must not keep tubes alive without readers.
    if (this.followers === 0) this.#better.length = 0;
  }
}

// A heap of a session's watched tubes that have a job to give, best job first. With it, a reserve
// of a session with very many such tubes examines only a few of them.
//
// Each entry has the pri and id that its tube's best job had when last examined. The heap is lazy:
// if a best job has left or become worse, its entry sinks to the new place only when it reaches the
// top. Only tubes whose best job became better must be reported, by `BetterTubes`; the session
// reads the new entries of that log before it chooses. So no entry is ever later than its tube's
// true place, and the first entry that is still true is the best of all.
//
// A new heap of very many tubes may be built in steps, before the session's command needs it: to
// look at 100,000 tubes takes 30 ms.
//
// For a session that picks by weight, the turn of a tube comes before pri and id. A turn that is
// postponed is noticed in the same way, and so is a floor above it.

const CAPACITY_MIN = 64;

/** The tubes that a session watches. */
interface Watched {
  has(tube: Tube): boolean;
  keys(): MapIterator<Tube>;
  readonly size: number;
}

/**
 * The part of the order before pri and id. A turn is 0 or more; a smaller value is a lower bound.
 */
export interface TubePlaces {
  /**
   * Returns the place of a tube that has a job to give; NaN if the order has to forget the tube.
   */
  placeNow(tube: Tube): number;
  /** Returns a place that is not after the tube's, while no choice is made. */
  placeAtLeast(tube: Tube): number;
}

/** A session that doesn't pick by weight. */
const ONE_PLACE: TubePlaces = { placeNow: () => 0, placeAtLeast: () => 0 };

export class ReadyOrder {
  /** Number of entries and tubes examined since the caller set it to 0. */
  looks = 0;
  readonly #jobs: JobTable;
  readonly #better: BetterTubes;
  readonly #at: TubePlaces;
  #tubes: (Tube | undefined)[] = [];
  #places = new Float64Array(0);
  #pris = new Uint32Array(0);
  #ids = new Float64Array(0);
  #size = 0;
  /** Number of log entries read; -1 before the heap exists. */
  #read = -1;
  /** Tubes that a heap that is built in steps has not looked at; undefined otherwise. */
  #left: Iterator<Tube, undefined> | undefined;
  /** Whether its steps came too late for the log once. */
  #isLate = false;

  /** Follows the log until `end`. */
  constructor(jobs: JobTable, better: BetterTubes, places: TubePlaces = ONE_PLACE) {
    this.#jobs = jobs;
    this.#better = better;
    this.#at = places;
    better.followers++;
  }

  /** Entries; a tube may have several. */
  get size(): number {
    return this.#size;
  }

  end(): void {
    this.#better.unfollow();
  }

  /**
   * Returns the watched tube with the best job, or undefined. `readyTubes` must be all tubes with a
   * ready job.
   */
  best(watched: Watched, readyTubes: readonly Tube[]): Tube | undefined {
    this.#catchUp(watched, readyTubes);
    for (;;) {
      if (this.#size === 0) return undefined;
      const tube = this.#tubes[0]!;
      this.looks++;
      const top = gives(tube) ? tube.ready.top : NO_SLOT;
      const place = top === NO_SLOT || !watched.has(tube) ? Number.NaN : this.#at.placeNow(tube);
      if (Number.isNaN(place)) {
        this.#removeFirst();
        continue;
      }
      const page = this.#jobs.pageOf(top);
      const pri = page.pri[rowOf(top)]!;
      const id = page.id[rowOf(top)]!;
      if (place === this.#places[0] && pri === this.#pris[0] && id === this.#ids[0]) return tube;
      this.#siftDown(0, tube, place, pri, id);
    }
  }

  /** Removes the tube that `best` has just returned. */
  removeBest(): void {
    this.#removeFirst();
  }

  /**
   * Adds a tube that the session began to watch or that was taken out; it now watches `watched`.
   */
  add(tube: Tube, watched: number): void {
    this.#add(tube, this.#at.placeAtLeast(tube));
    this.trim(watched);
  }

  /**
   * Forgets all entries if there are far more than watched tubes; the session rebuilds them when it
   * needs them. Otherwise, tubes that it watches and ignores in turn would fill memory.
   */
  trim(watched: number): void {
    if (this.#size <= 2 * watched + CAPACITY_MIN) return;
    this.#size = 0;
    this.#tubes = [];
    this.#places = new Float64Array(0);
    this.#pris = new Uint32Array(0);
    this.#ids = new Float64Array(0);
    this.#read = -1;
    this.#left = undefined;
  }

  /** Returns whether the next choice would look at all of `tubes` tubes. */
  isStale(tubes: number): boolean {
    const missed = this.#better.noted - this.#read;
    return (
      this.#read < 0 ||
      this.#left !== undefined ||
      // A tube may occur twice, and one that is no longer watched stays until it reaches the top.
      this.#size > 2 * tubes + CAPACITY_MIN ||
      missed > Math.min(BETTER_TUBES_KEPT, CAPACITY_MIN + tubes / 4)
    );
  }

  /**
   * Builds the heap anew, looking at up to `tubesMax` tubes in a step. Returns whether it is
   * complete.
   */
  build(watched: Watched, readyTubes: readonly Tube[], tubesMax: number): boolean {
    assert(tubesMax > 0, "a step looks at a tube");
    const { noted } = this.#better;
    if (this.#left === undefined || noted - this.#read > BETTER_TUBES_KEPT) {
      if (this.#left !== undefined && this.#isLate) {
        // There is so much to do that steps don't suffice.
        this.#makeAnew(watched, readyTubes);
        return true;
      }
      this.#isLate = this.#left !== undefined;
      this.#size = 0;
      this.#tubes = [];
      this.#makeRoom(Math.min(watched.size, readyTubes.length));
      this.#left = watched.size <= readyTubes.length ? watched.keys() : backwards(readyTubes);
      this.#read = noted;
    }
    this.#readLog(watched);
    for (let left = tubesMax; left > 0; left--) {
      const { value: tube } = this.#left.next();
      this.looks++;
      if (tube === undefined) {
        this.#left = undefined;
        this.#isLate = false;
        return true;
      }
      const mayGive = gives(tube) && tube.ready.top !== NO_SLOT && watched.has(tube);
      const place = mayGive ? this.#at.placeNow(tube) : Number.NaN;
      if (!Number.isNaN(place)) this.#add(tube, place);
    }
    return false;
  }

  #add(tube: Tube, place: number): void {
    const top = gives(tube) ? tube.ready.top : NO_SLOT;
    if (top === NO_SLOT || this.#read < 0) return;
    const page = this.#jobs.pageOf(top);
    this.#makeRoom(this.#size + 1);
    this.#siftUp(this.#size++, tube, place, page.pri[rowOf(top)]!, page.id[rowOf(top)]!);
  }

  #catchUp(watched: Watched, readyTubes: readonly Tube[]): void {
    assert(this.#read <= this.#better.noted, "an order has read no more than was noted");
    if (this.isStale(Math.min(watched.size, readyTubes.length))) this.#makeAnew(watched, readyTubes);
    else this.#readLog(watched);
  }

  /** Adds the tubes whose best job became better. */
  #readLog(watched: Watched): void {
    const { noted } = this.#better;
    this.looks += noted - this.#read;
    for (; this.#read < noted; this.#read++) {
      const tube = this.#better.at(this.#read);
      if (watched.has(tube)) this.#add(tube, this.#at.placeAtLeast(tube));
    }
  }

  #makeAnew(watched: Watched, readyTubes: readonly Tube[]): void {
    this.#left = undefined;
    this.#isLate = false;
    this.#size = 0;
    this.#tubes = [];
    this.#makeRoom(Math.min(watched.size, readyTubes.length));
    if (watched.size <= readyTubes.length) for (const tube of watched.keys()) this.#append(tube);
    else for (const tube of readyTubes) if (watched.has(tube)) this.#append(tube);
    this.looks += Math.min(watched.size, readyTubes.length);
    for (let position = (this.#size >> 1) - 1; position >= 0; position--)
      this.#siftDown(
        position,
        this.#tubes[position]!,
        this.#places[position]!,
        this.#pris[position]!,
        this.#ids[position]!,
      );
    assert(this.#size <= Math.min(watched.size, readyTubes.length), "a new order has each tube once");
    this.#read = this.#better.noted;
  }

  #append(tube: Tube): void {
    const top = gives(tube) ? tube.ready.top : NO_SLOT;
    const place = top === NO_SLOT ? Number.NaN : this.#at.placeNow(tube);
    if (Number.isNaN(place)) return;
    assert(this.#size < this.#ids.length, "an order has room for its tubes");
    const page = this.#jobs.pageOf(top);
    this.#place(this.#size++, tube, place, page.pri[rowOf(top)]!, page.id[rowOf(top)]!);
  }

  #makeRoom(size: number): void {
    if (size <= this.#ids.length) return;
    const capacity = Math.max(CAPACITY_MIN, size, 2 * this.#size);
    const places = new Float64Array(capacity);
    const pris = new Uint32Array(capacity);
    const ids = new Float64Array(capacity);
    places.set(this.#places.subarray(0, this.#size));
    pris.set(this.#pris.subarray(0, this.#size));
    ids.set(this.#ids.subarray(0, this.#size));
    this.#places = places;
    this.#pris = pris;
    this.#ids = ids;
  }

  #removeFirst(): void {
    const last = --this.#size;
    assert(last >= 0, "only an existing entry is removed");
    const tube = this.#tubes[last]!;
    const place = this.#places[last]!;
    const pri = this.#pris[last]!;
    const id = this.#ids[last]!;
    this.#tubes[last] = undefined;
    if (last > 0) this.#siftDown(0, tube, place, pri, id);
  }

  #place(position: number, tube: Tube, place: number, pri: number, id: number): void {
    if (CHECKED) assert(position < this.#size && !Number.isNaN(place), "an entry has a place in the order");
    this.#tubes[position] = tube;
    this.#places[position] = place;
    this.#pris[position] = pri;
    this.#ids[position] = id;
  }

  /** Returns whether an entry comes before (place, pri, id). */
  #isBefore(position: number, place: number, pri: number, id: number): boolean {
    const entryPlace = this.#places[position]!;
    if (entryPlace !== place) return entryPlace < place;
    const entryPri = this.#pris[position]!;
    return entryPri < pri || (entryPri === pri && this.#ids[position]! < id);
  }

  /** Copies an entry to another position. */
  #copy(from: number, to: number): void {
    this.#place(to, this.#tubes[from]!, this.#places[from]!, this.#pris[from]!, this.#ids[from]!);
  }

  #siftUp(from: number, tube: Tube, place: number, pri: number, id: number): void {
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (this.#isBefore(parent, place, pri, id)) break;
      this.#copy(parent, position);
      position = parent;
    }
    this.#place(position, tube, place, pri, id);
  }

  #siftDown(from: number, tube: Tube, place: number, pri: number, id: number): void {
    const size = this.#size;
    let position = from;
    for (let child = from * 2 + 1; child < size; child = position * 2 + 1) {
      const isRight =
        child + 1 < size &&
        this.#isBefore(child + 1, this.#places[child]!, this.#pris[child]!, this.#ids[child]!);
      if (isRight) child++;
      if (!this.#isBefore(child, place, pri, id)) break;
      this.#copy(child, position);
      position = child;
    }
    this.#place(position, tube, place, pri, id);
  }
}

/**
 * Visits tubes from the end, because the last one takes the place of one that leaves. New ones at
 * the end are not visited: they are noted in the log.
 */
function* backwards(tubes: readonly Tube[]): Generator<Tube, undefined> {
  for (let at = tubes.length - 1; at >= 0; at = Math.min(at, tubes.length) - 1) yield tubes[at]!;
}

/** Returns whether a tube may give a job, unless limits of groups leave none. */
function gives(tube: Tube): boolean {
  return tube.readyAt >= 0 && tube.open;
}
