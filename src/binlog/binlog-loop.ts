// The loop of the log: takes the shards' records, writes and syncs them, and publishes the
// progress. The thread sleeps between turns.

import { assert } from "../base/assert.ts";
import { Point, type Surroundings } from "../loop/point.ts";
import type { Role } from "../loop/role.ts";
import { ControlWord } from "../message/topology.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import type { ControlWords } from "../ring/control-words.ts";
import type { Doorbell } from "../ring/doorbell.ts";
import type { BatchRing } from "./batch-ring.ts";
import type { BinlogCore } from "./binlog-core.ts";
import type { BinlogError } from "./disk/binlog-error.ts";
import type { LogClock } from "./live/log-clock.ts";
import type { Storage } from "./live/storage.ts";

/** The next action. Work may write and sync as well, so the loop publishes the progress twice. */
const Action = {
  Take: 0,
  Flush: 1,
  Tell: 2,
  RingAcceptors: 3,
  Work: 4,
  TellAgain: 5,
  RingAcceptorsAgain: 6,
  TellState: 7,
  RingShards: 8,
  End: 9,
} as const;
type Action = (typeof Action)[keyof typeof Action];

interface BinlogLoopOptions {
  readonly core: BinlogCore;
  readonly storage: Storage;
  readonly control: ControlWords;
  /** The doorbells of all shards and of all acceptors. */
  readonly shards: readonly Doorbell[];
  readonly acceptors: readonly Doorbell[];
  readonly counters: TurnCounters;
  readonly clock?: LogClock | undefined;
  /** Only in a group. */
  readonly batches?: BatchRing | undefined;
  /**
   * Whether the loop yields after it publishes the progress, so that its thread can send replies
   * before the log's own work.
   */
  readonly givesWay?: boolean;
  readonly surroundings: Surroundings;
}

export class BinlogLoop implements Role {
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  readonly #options: BinlogLoopOptions;
  #action: Action = Action.Take;
  /** Whether a stop was requested when the turn began. */
  #stopping = false;
  /** Whether making room or compaction has more to do. */
  worksOn = false;

  constructor(options: BinlogLoopOptions) {
    assert(options.shards.length === options.core.rings.length, "each shard has a doorbell");
    this.#options = options;
  }

  get hasWork(): boolean {
    const { core, storage } = this.#options;
    // A log that waits for room takes nothing before its deadline, however full the rings are.
    if (core.stopping) return true;
    return (
      (core.hasRecords || core.lendIsDue(storage) || core.backupIsDue(storage)) &&
      !storage.waiting &&
      !storage.isBackedUp
    );
  }

  get nextDueAtMs(): number {
    const { storage, clock } = this.#options;
    return Math.min(storage.nextDeadline(), clock?.lookAtMs ?? Number.POSITIVE_INFINITY);
  }

  /** Only in a group does the loop publish to a ring that may be full. */
  wantRoom(): void {
    this.#options.batches?.wantRoom();
  }

  /**
   * Stops all replies: the connections that remain are about to be closed. Returns why the log
   * failed, if it did.
   */
  close(): BinlogError | undefined {
    const { storage, control, surroundings, clock } = this.#options;
    assert(this.#action === Action.End, "the log is closed after its loop has ended");
    control.set(ControlWord.BinlogEnded);
    clock?.look(surroundings.nowMs());
    if (storage.failure === undefined) storage.close(surroundings.nowMs());
    return storage.failure;
  }

  /**
   * Runs to the next point. At `Point.Ended`, the log is stopping and has taken everything, or it
   * has failed; `close` follows.
   */
  next(): Point {
    const { storage, surroundings, givesWay } = this.#options;
    for (;;) {
      const point = this.#act();
      if (point !== undefined) return point;
      if (storage.failure !== undefined) this.#action = Action.End;
      else if (givesWay === true && this.#action === Action.Work) return Point.HeldUp;
      else if (surroundings.isHeldUp()) return Point.HeldUp;
    }
  }

  /**
   * Performs one action. Returns the point at which it ends, or undefined between two actions of a
   * turn.
   */
  #act(): Point | undefined {
    const { core, storage, surroundings } = this.#options;
    const { failure } = storage;
    assert(failure === undefined || this.#action === Action.End, "a failed log publishes nothing");
    switch (this.#action) {
      case Action.Take:
        this.#take();
        this.#action = Action.Flush;
        break;
      case Action.Flush:
        storage.flush(surroundings.nowMs());
        this.#action = Action.Tell;
        break;
      case Action.Tell:
        this.#action = core.publishProgress(storage) ? Action.RingAcceptors : Action.Work;
        break;
      case Action.RingAcceptors:
        this.#ringAcceptors();
        this.#action = Action.Work;
        break;
      case Action.Work:
        // At a stop, making room and compaction are left to the next start. The records still in
        // the rings find room without them, or make it.
        core.takeBackup(storage);
        this.worksOn = !this.#stopping && storage.work(surroundings.nowMs());
        this.#action = Action.TellAgain;
        break;
      case Action.TellAgain:
        this.#action = core.publishProgress(storage) ? Action.RingAcceptorsAgain : Action.TellState;
        break;
      case Action.RingAcceptorsAgain:
        this.#ringAcceptors();
        this.#action = Action.TellState;
        break;
      case Action.TellState:
        // Clear the word first, then ring: a shard that goes to sleep in between checks the word
        // once more.
        if (!core.publishState(storage)) return this.#turned();
        this.#action = Action.RingShards;
        break;
      case Action.RingShards:
        this.#ringShards();
        return this.#turned();
      case Action.End:
        return Point.Ended;
    }
    return undefined;
  }

  #take(): void {
    const { core, storage, counters, surroundings, clock } = this.#options;
    this.#stopping = core.stopping;
    this.begunAtMs = surroundings.nowMs();
    counters.begin();
    this.taken = core.takeRecords(storage, this.#ringShard);
    counters.end(this.taken);
    if (clock !== undefined && this.begunAtMs >= clock.lookAtMs) clock.look(this.begunAtMs);
  }

  #turned(): Point {
    const { storage, surroundings } = this.#options;
    assert(
      this.#action === Action.TellState || this.#action === Action.RingShards,
      "a turn ends after its state is published",
    );
    this.#action = Action.Take;
    this.hasMore = this.taken > 0 || this.worksOn;
    if (!this.#stopping || this.hasMore) return Point.Turned;
    // The records in the rings are acknowledged or will be, so the log takes them all, unless it
    // has failed.
    const waited = storage.waiting;
    if (waited) storage.endWait(surroundings.nowMs());
    if (waited && storage.failure === undefined) {
      this.hasMore = true;
      return Point.Turned;
    }
    this.#action = Action.End;
    return Point.Ended;
  }

  readonly #ringShard = (shard: number): void => {
    const bell = this.#options.shards[shard];
    assert(bell !== undefined, "a waiting shard has a doorbell");
    this.#options.counters.rang(bell.ring());
  };

  #ringShards(): void {
    for (let shard = 0; shard < this.#options.shards.length; shard++) this.#ringShard(shard);
  }

  #ringAcceptors(): void {
    const { acceptors, counters } = this.#options;
    for (const acceptor of acceptors) counters.rang(acceptor.ring());
  }
}
