// The loop of the log: takes the shards' records, writes and syncs them, and publishes the
// progress. The thread sleeps between turns.

import { assert } from "../base/assert.ts";
import { type ColocatedRole, Point, type Role, type Surroundings } from "../loop/role.ts";
import { LOG_BATCH_BYTES_MAX, LOG_BATCH_HEADER_BYTES } from "../message/log-batch.ts";
import { binlogGroup, ControlWord, groupBell, type Topology } from "../message/topology.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import type { ControlWords } from "../ring/control-words.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { BatchWord } from "../ring/log-words.ts";
import { FULL, RingWriter } from "../ring/ring.ts";
import type { BinlogCore } from "./binlog-core.ts";
import type { BinlogError } from "./disk/binlog-error.ts";
import type { BatchSink } from "./live/batch-chain.ts";
import type { LogClock } from "./live/log-clock.ts";
import type { Storage } from "./live/storage.ts";

// Sends batches to the group's thread. If the ring has no room for a batch, it keeps the batch, and
// the log takes no more records until it is sent.

export class BatchRing implements BatchSink {
  readonly #ring: RingWriter;
  readonly #bell: Doorbell;
  readonly #word: BatchWord;
  readonly #message: BatchWord;
  readonly #kept: { bytes: Uint8Array; numbers: Float64Array }[] = [];
  #taken: number;

  /** The first batch follows batch `n`. */
  constructor(topology: Topology, n: number) {
    assert(n > 0, "a batch that others follow has a number");
    this.#ring = new RingWriter(binlogGroup(topology).ring);
    this.#bell = new Doorbell(new Int32Array(topology.doorbells), groupBell(topology));
    const words = new Int32Array(topology.control);
    this.#word = new BatchWord(words, ControlWord.AcknowledgedBatch);
    this.#message = new BatchWord(words, ControlWord.AcknowledgedMessage);
    this.#taken = n;
  }

  get hasRoom(): boolean {
    this.#sendKept();
    return this.#kept.length === 0 && this.#ring.hasRoom(this.#ring.messageBytesMax);
  }

  get acknowledged(): number {
    return this.#word.read(this.#taken);
  }

  get acknowledgedMessage(): number {
    return this.#message.lowBits;
  }

  /** Asks the group's thread to ring once there is room. */
  wantRoom(): void {
    if (!this.hasRoom) this.#ring.wantRoom();
  }

  take(bytes: Uint8Array, numbers: Float64Array): void {
    assert(
      bytes.length >= LOG_BATCH_HEADER_BYTES && bytes.length <= LOG_BATCH_BYTES_MAX,
      "a batch has at most the maximum size",
    );
    this.#taken++;
    if (this.#kept.length === 0 && this.#send(bytes, numbers)) return;
    this.#kept.push({ bytes: bytes.slice(), numbers: numbers.slice() });
  }

  #sendKept(): void {
    while (this.#kept.length > 0 && this.#send(this.#kept[0]!.bytes, this.#kept[0]!.numbers))
      this.#kept.shift();
  }

  #send(bytes: Uint8Array, numbers: Float64Array): boolean {
    assert(numbers.length > 0, "a batch has the numbers of all shards");
    const ring = this.#ring;
    const headBytes = 8 + 8 * numbers.length;
    const offset = ring.claim(headBytes + bytes.length);
    if (offset === FULL) return false;
    ring.uint32[(offset >> 2) + 1] = bytes.length;
    ring.float64.set(numbers, (offset >> 3) + 1);
    ring.bytes.set(bytes, offset + headBytes);
    ring.publish();
    this.#bell.ring();
    return true;
  }
}

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
    return core.hasWork(storage);
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
    control.set(ControlWord.NoMoreReplies);
    clock?.look(surroundings.nowMs());
    if (storage.failure === undefined) storage.close(surroundings.nowMs());
    return storage.failure;
  }

  /**
   * Runs to the next point. At `Point.Ended`, the log is stopping and has taken everything, or it
   * has failed; `close` follows.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { core, storage, counters, clock, surroundings, givesWay } = this.#options;
    for (;;) {
      assert(storage.failure === undefined || this.#action === Action.End, "a failed log publishes nothing");
      switch (this.#action) {
        case Action.Take:
          this.#stopping = core.stopping;
          this.begunAtMs = surroundings.nowMs();
          counters.begin();
          this.taken = core.takeRecords(storage, this.#ringShard);
          counters.end(this.taken);
          if (clock !== undefined && this.begunAtMs >= clock.lookAtMs) clock.look(this.begunAtMs);
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
          for (let shard = 0; shard < this.#options.shards.length; shard++) this.#ringShard(shard);
          return this.#turned();
        case Action.End:
          return Point.Ended;
      }
      if (storage.failure !== undefined) this.#action = Action.End;
      else if (givesWay === true && this.#action === Action.Work) return Point.HeldUp;
      else if (surroundings.isHeldUp()) return Point.HeldUp;
    }
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

  #ringAcceptors(): void {
    const { acceptors, counters } = this.#options;
    for (const acceptor of acceptors) counters.rang(acceptor.ring());
  }
}

// Runs the log in the thread of acceptors and shards, after them, so that a reply waits for the
// disk but not for another thread. Its own work (making room, compaction) takes one slice in each
// pass of the thread.

export class ColocatedLog implements ColocatedRole {
  readonly #role: BinlogLoop;
  readonly #onEnded: () => void;
  isInTurn = false;
  #hasEnded = false;

  /** Calls `onEnded` once: when the log was stopped and has taken everything, or has failed. */
  constructor(role: BinlogLoop, onEnded: () => void) {
    this.#role = role;
    this.#onEnded = onEnded;
  }

  get begunAtMs(): number {
    return this.#role.begunAtMs;
  }

  get taken(): number {
    return this.#role.taken;
  }

  get hasMore(): boolean {
    return this.#role.hasMore;
  }

  get hasWork(): boolean {
    return !this.#hasEnded && (this.#role.hasWork || this.#role.worksOn);
  }

  get nextDueAtMs(): number {
    return this.#hasEnded ? Number.POSITIVE_INFINITY : this.#role.nextDueAtMs;
  }

  wantRoom(): void {
    this.#role.wantRoom();
  }

  next(): Point {
    if (this.#hasEnded) return Point.Ended;
    const point = this.#role.next();
    this.isInTurn = point === Point.HeldUp;
    if (point !== Point.Ended) return point;
    this.#hasEnded = true;
    this.#onEnded();
    return point;
  }

  /**
   * Runs a whole turn for a shard of this thread that can't continue a command until the log takes
   * its records. Returns false if there is nothing to do now: see `nextDueAtMs`.
   */
  turn(nowMs: number): boolean {
    if (this.#hasEnded || !(this.isInTurn || this.hasWork || this.nextDueAtMs <= nowMs)) return false;
    while (this.next() === Point.HeldUp);
    assert(!this.isInTurn, "turns don't nest");
    return true;
  }
}
