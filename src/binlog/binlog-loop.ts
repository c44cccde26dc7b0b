// The loop of the log: takes the shards' records, writes and syncs them, and publishes which are
// written and durable. It has no thread and no clock of its own.
//
// The log has a thread of its own, which sleeps between turns, or it runs in the thread of
// acceptors and shards, after them: a reply then waits for the disk but not for another thread. A
// simulation runs the same loop with its own disk and time.

import { assert } from "../base/assert.ts";
import { type ColocatedLogRole, type ColocatedRole, Point, type Surroundings } from "../loop/role.ts";
import { LOG_BATCH_BYTES_MAX, LOG_BATCH_HEADER_BYTES } from "../message/log-batch.ts";
import { APPEND_HEADER_BYTES } from "../message/record.ts";
import {
  backupWords,
  binlogGroup,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  groupBell,
  type Topology,
} from "../message/topology.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { EMPTY, FULL, RingReader, RingWriter } from "../ring/ring.ts";
import {
  type BackupWords,
  BatchWord,
  ControlWords,
  JobIds,
  LentIds,
  LogWord,
  LogWords,
  RestateWords,
} from "../ring/shared-words.ts";
import type { BinlogError } from "./disk/binlog-error.ts";
import type { BatchSink } from "./live/batch-chain.ts";
import type { LogClock } from "./live/log-clock.ts";
import type { CutState, LogCut } from "./live/log-cut.ts";
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

/** Maximum number of records to take from one shard before the others have their turn. */
const BATCH_RECORDS = 4096;

interface BinlogLoopOptions {
  /** Must have a log. */
  readonly topology: Topology;
  readonly storage: Storage;
  /** The doorbells of all shards and of all acceptors. */
  readonly shards: readonly Doorbell[];
  readonly acceptors: readonly Doorbell[];
  readonly clock?: LogClock | undefined;
  /** Only in a group. */
  readonly batches?: BatchRing | undefined;
  /**
   * Whether the loop yields after it publishes the progress, so that its thread can send replies
   * before the log's own work.
   */
  readonly givesWay?: boolean;
  /** Called once: when the log was stopped and has taken everything, or has failed. */
  readonly onEnded?: (() => void) | undefined;
  readonly surroundings: Surroundings;
}

export class BinlogLoop implements ColocatedRole, ColocatedLogRole {
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  isInTurn = false;
  /** One for each shard. */
  readonly rings: readonly RingReader[];
  readonly turns: TurnCounters;
  readonly #options: BinlogLoopOptions;
  readonly #storage: Storage;
  #action: Action = Action.Take;
  #hasEnded = false;
  /** Whether a stop was requested when the turn began. */
  #stopping = false;
  /** Whether making room or compaction has more to do. */
  #worksOn = false;
  readonly #written: LogWords;
  readonly #synced: LogWords;
  readonly #publishedWritten: Float64Array;
  readonly #publishedSynced: Float64Array;
  readonly #control: ControlWords;
  readonly #counters: Float64Array;
  readonly #ids: JobIds;
  readonly #lent: LentIds;
  readonly #backup: BackupWords;
  readonly #restate: RestateWords;
  #publishedCut: CutState = "none";
  #publishedKept = 0;
  #publishedLent = 0;
  /** The first id since the start. */
  #firstId = 1;

  constructor(options: BinlogLoopOptions) {
    const { topology, storage, shards } = options;
    const { binlog } = topology;
    assert(binlog !== undefined, "the topology has a log");
    assert(binlog.rings.length === topology.shards, "each shard has a ring to the log");
    assert(shards.length === topology.shards, "each shard has a doorbell");
    this.#options = options;
    this.#storage = storage;
    this.rings = binlog.rings.map((ring) => new RingReader(ring));
    this.#written = new LogWords(binlog.progress, LogWord.Written);
    this.#synced = new LogWords(binlog.progress, LogWord.Synced);
    this.#publishedWritten = new Float64Array(topology.shards);
    this.#publishedSynced = new Float64Array(topology.shards);
    this.#control = new ControlWords(topology.control);
    this.#counters = countersOf(topology, binlogRole(topology));
    this.turns = new TurnCounters(this.#counters, this.rings);
    this.#ids = new JobIds(this.#control.words, ControlWord.JobIds);
    this.#lent = new LentIds(this.#control.words, ControlWord.IdsLent);
    this.#backup = backupWords(topology);
    this.#restate = new RestateWords(binlog.restate, topology.shards);
  }

  /** Sets the first id to hand out, before any thread takes one. The log lends it on demand. */
  beginIds(nextId: number): void {
    assert(nextId >= 1, "ids begin at 1");
    this.#ids.reset(nextId);
    this.#lent.publish(nextId - 1);
    this.#firstId = nextId;
  }

  /** Whether a turn has something to do now. */
  get hasWork(): boolean {
    if (this.#hasEnded) return false;
    if (this.#worksOn || this.#control.isSet(ControlWord.BinlogStop)) return true;
    const { room, tail, cut } = this.#storage;
    // A log that waits for room takes nothing before its deadline, however full the rings are.
    if (room.waiting || tail.chain?.hasRoom === false) return false;
    for (const ring of this.rings) if (ring.hasMessage) return true;
    const isAsked = this.#backup.asked !== cut.number || this.#restate.rewriteBelow !== tail.damagedBelow;
    return isAsked || this.#storage.lendIsDue(this.#ids.lastSince(this.#firstId));
  }

  get nextDueAtMs(): number {
    if (this.#hasEnded) return Number.POSITIVE_INFINITY;
    return Math.min(this.#storage.nextDeadline(), this.#options.clock?.lookAtMs ?? Number.POSITIVE_INFINITY);
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
    const storage = this.#storage;
    const { surroundings, clock } = this.#options;
    assert(this.#action === Action.End, "the log is closed after its loop has ended");
    this.#control.set(ControlWord.NoMoreReplies);
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
    const storage = this.#storage;
    const { acceptors, clock, surroundings, givesWay } = this.#options;
    for (;;) {
      assert(storage.failure === undefined || this.#action === Action.End, "a failed log publishes nothing");
      switch (this.#action) {
        case Action.Take:
          this.#stopping = this.#control.isSet(ControlWord.BinlogStop);
          this.begunAtMs = surroundings.nowMs();
          this.turns.begin();
          this.taken = this.#takeRecords();
          this.turns.end(this.taken);
          if (clock !== undefined && this.begunAtMs >= clock.lookAtMs) clock.look(this.begunAtMs);
          this.#action = Action.Flush;
          break;
        case Action.Flush:
          storage.flush(surroundings.nowMs());
          this.#action = Action.Tell;
          break;
        case Action.Tell:
          this.#action = this.publishProgress() ? Action.RingAcceptors : Action.Work;
          break;
        case Action.RingAcceptors:
          for (const acceptor of acceptors) if (acceptor.ring()) this.turns.woke();
          this.#action = Action.Work;
          break;
        case Action.Work:
          // At a stop, making room and compaction are left to the next start. The records still in
          // the rings find room without them, or make it.
          if (this.#backup.asked !== storage.cut.number) this.#takeBackup();
          storage.tail.damagedBelow = this.#restate.rewriteBelow;
          this.#worksOn = !this.#stopping && storage.work(surroundings.nowMs());
          this.#action = Action.TellAgain;
          break;
        case Action.TellAgain:
          this.#action = this.publishProgress() ? Action.RingAcceptorsAgain : Action.TellState;
          break;
        case Action.RingAcceptorsAgain:
          for (const acceptor of acceptors) if (acceptor.ring()) this.turns.woke();
          this.#action = Action.TellState;
          break;
        case Action.TellState:
          // Clear the word first, then ring: a shard that goes to sleep in between checks the word
          // once more.
          if (!this.publishState()) return this.#turned();
          this.#action = Action.RingShards;
          break;
        case Action.RingShards:
          for (let shard = 0; shard < this.#options.shards.length; shard++) this.#ringShard(shard);
          return this.#turned();
        case Action.End:
          return this.#end();
      }
      if (storage.failure !== undefined) this.#action = Action.End;
      else if ((givesWay === true && this.#action === Action.Work) || surroundings.isHeldUp?.() === true) {
        this.isInTurn = true;
        return Point.HeldUp;
      }
    }
  }

  #turned(): Point {
    const storage = this.#storage;
    assert(
      this.#action === Action.TellState || this.#action === Action.RingShards,
      "a turn ends after its state is published",
    );
    this.#action = Action.Take;
    this.isInTurn = false;
    this.hasMore = this.taken > 0 || this.#worksOn;
    if (!this.#stopping || this.hasMore) return Point.Turned;
    // The records in the rings are acknowledged or will be, so the log takes them all, unless it
    // has failed.
    const waited = storage.room.waiting;
    if (waited) storage.endWait(this.#options.surroundings.nowMs());
    if (waited && storage.failure === undefined) {
      this.hasMore = true;
      return Point.Turned;
    }
    this.#action = Action.End;
    return this.#end();
  }

  #end(): Point {
    this.isInTurn = false;
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      this.#options.onEnded?.();
    }
    return Point.Ended;
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

  readonly #ringShard = (shard: number): void => {
    const bell = this.#options.shards[shard];
    assert(bell !== undefined, "a waiting shard has a doorbell");
    if (bell.ring()) this.turns.woke();
  };

  // --- between the rings and the storage ---------------------------------------------------------

  /**
   * Appends the records that the shards have published, and rings each shard that waits for room.
   * Returns the number of records.
   */
  // put 11/18
  #takeRecords(): number {
    const storage = this.#storage;
    let taken = 0;
    for (let shard = 0; shard < this.rings.length; shard++) {
      const ring = this.rings[shard]!;
      for (let i = 0; i < BATCH_RECORDS; i++) {
        if (storage.room.waiting || storage.tail.chain?.hasRoom === false) break;
        const offset = ring.next();
        if (offset === EMPTY) break;
        const bytes = ring.uint32[(offset >> 2) + 1]!;
        const number = ring.float64[(offset >> 3) + 1]!;
        assert(APPEND_HEADER_BYTES + bytes <= ring.int32[offset >> 2]!, "a record ends inside its message");
        storage.append(shard, number, ring.bytes, offset + APPEND_HEADER_BYTES, bytes);
        taken++;
      }
      if (ring.release()) this.#ringShard(shard);
    }
    storage.lendIds(this.#ids.lastSince(this.#firstId));
    // The following flush may hang in a sync; this makes the hang visible.
    this.#counters[Counter.BinlogUnsyncedSinceMs] = storage.tail.unsyncedSinceMs;
    return taken;
  }

  /**
   * Publishes how far the log is written and synced. Returns true if replies may have waited for
   * it.
   */
  // put 14/18
  publishProgress(): boolean {
    const storage = this.#storage;
    let written = false;
    let synced = false;
    for (let shard = 0; shard < this.#publishedWritten.length; shard++) {
      const writtenUpTo = storage.tail.written[shard]!;
      if (writtenUpTo !== this.#publishedWritten[shard]) {
        assert(writtenUpTo > this.#publishedWritten[shard]!, "written records stay written");
        this.#publishedWritten[shard] = writtenUpTo;
        this.#written.publish(shard, writtenUpTo);
        written = true;
      }
      const syncedUpTo = storage.tail.synced[shard]!;
      assert(syncedUpTo <= writtenUpTo, "a durable record was written");
      if (syncedUpTo === this.#publishedSynced[shard]) continue;
      assert(syncedUpTo > this.#publishedSynced[shard]!, "durable records stay durable");
      this.#publishedSynced[shard] = syncedUpTo;
      this.#synced.publish(shard, syncedUpTo);
      synced = true;
    }
    const { repliesWaitFor, group } = this.#options.topology.binlog!;
    if (repliesWaitFor === LogWord.Synced) return synced;
    // In a group, replies may wait for the shared log; the group's thread rings when that has the
    // records.
    return written && group?.repliesWait !== true;
  }

  /**
   * Publishes whether there is room, and the log's figures for `stats`. Returns true if sleeping
   * shards may continue.
   */
  publishState(): boolean {
    const counters = this.#counters;
    const { table, tail, cut, compacts } = this.#storage;
    const { waiting, full } = this.#storage.room;
    const oldestSegment = table.oldest?.number ?? 0;
    const currentSegment = tail.segments.current.number;
    const hadWaited = this.#control.isSet(ControlWord.BinlogWaits);
    if (waiting) this.#control.set(ControlWord.BinlogWaits);
    else if (hadWaited) this.#control.clear(ControlWord.BinlogWaits);
    const wasFull = this.#control.isSet(ControlWord.BinlogFull);
    if (full && !wasFull) this.#control.set(ControlWord.BinlogFull);
    else if (wasFull && !full) this.#control.clear(ControlWord.BinlogFull);
    assert(oldestSegment <= currentSegment, "the current segment is not before the oldest");
    counters[Counter.BinlogOldest] = oldestSegment;
    counters[Counter.BinlogCurrent] = currentSegment;
    counters[Counter.BinlogWritten] = tail.recordsWritten;
    counters[Counter.BinlogMigrated] = tail.recordsMigrated;
    const fileBytes = table.fileBytes();
    assert(table.liveBytes <= fileBytes, "live bytes lie in the files");
    counters[Counter.BinlogBytes] = fileBytes;
    counters[Counter.BinlogLiveBytes] = table.liveBytes;
    counters[Counter.BinlogSpareBytes] = tail.segments.roomBytes;
    counters[Counter.BinlogCompacts] = compacts ? 1 : 0;
    counters[Counter.BinlogUnsyncedSinceMs] = tail.unsyncedSinceMs;
    if (cut.isBusy || this.#publishedKept > 0 || cut.state !== this.#publishedCut) this.#publishCut(cut);
    counters.set(tail.timings.figures, Counter.LogFigures);
    // A put may wait for ids that a full log does not lend.
    const refuses = full && !wasFull;
    const idsLent = tail.lending.durableUpTo;
    const lends = idsLent !== this.#publishedLent && this.#publishLent(idsLent);
    return lends || refuses || (hadWaited && !waiting);
  }

  /** Returns true if puts may have waited for the ids. */
  #publishLent(idsLent: number): boolean {
    // In a group, the group's thread lends the ids.
    if (this.#options.topology.binlog!.group !== undefined) return false;
    assert(idsLent > this.#publishedLent, "lent ids only go up");
    this.#publishedLent = idsLent;
    this.#lent.publish(idsLent);
    return true;
  }

  /** Tells the log which backup wants a cut. */
  #takeBackup(): void {
    const { cut } = this.#storage;
    cut.want(this.#backup.asked);
    this.#publishedCut = cut.state;
  }

  #publishCut(cut: LogCut): void {
    const { kept } = cut;
    if (kept !== this.#publishedKept) this.#backup.setKept(kept);
    this.#publishedKept = kept;
    if (cut.state === this.#publishedCut) return;
    this.#publishedCut = cut.state;
    if (cut.state === "made") this.#backup.grant(cut.number, cut);
    else if (cut.state === "refused") this.#backup.refuse(cut.number);
  }
}
