// The binlog between rings and storage as pure code: takes records, and publishes which are written
// and durable. No thread, no clock.
//
// One turn is `takeRecords`, `storage.flush`, `publishProgress`, `storage.work`, `publishState`.
// The loop around it (binlog-loop.ts) publishes, rings and decides when to sleep. A simulation runs
// the same loop with its own disk and time.

import { assert, CHECKED } from "../base/assert.ts";
import { shardOfTube } from "../base/bytes.ts";
import { APPEND_HEADER_BYTES, appendedBytes, appendedNumber, RECORD_ID_AT } from "../message/record.ts";
import {
  backupWords,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  type Topology,
} from "../message/topology.ts";
import { ControlWords } from "../ring/control-words.ts";
import { FileTable } from "../ring/job-directory.ts";
import { JobIds, LentIds } from "../ring/job-ids.ts";
import { type BackupWords, LogWord, LogWords } from "../ring/log-words.ts";
import { EMPTY, RingReader } from "../ring/ring.ts";
import type { CutState, LogCut } from "./live/log-cut.ts";
import type { Storage } from "./live/storage.ts";
import type { OpenedBinlog } from "./open-binlog.ts";
import type { RecoveredBatch } from "./recovery/recovered-jobs.ts";

/** Maximum number of records to take from one shard before the others have their turn. */
const BATCH_RECORDS = 4096;

export class BinlogCore {
  readonly #topology: Topology;
  /** One ring per shard. */
  readonly rings: readonly RingReader[];
  readonly #written: LogWords;
  readonly #synced: LogWords;
  readonly #publishedWritten: Float64Array;
  readonly #publishedSynced: Float64Array;
  readonly #control: ControlWords;
  readonly counters: Float64Array;
  readonly #files: FileTable;
  readonly #ids: JobIds;
  readonly #lent: LentIds;
  readonly #backup: BackupWords;
  #publishedCut: CutState = "none";
  #publishedKept = 0;
  #publishedLent = 0;
  /** The first id since the start. */
  #firstId = 1;

  /** `topology` must have a binlog. */
  constructor(topology: Topology) {
    const { binlog } = topology;
    assert(binlog !== undefined, "the topology has a log");
    assert(binlog.rings.length === topology.shards, "each shard has a ring to the log");
    this.#topology = topology;
    this.rings = binlog.rings.map((ring) => new RingReader(ring));
    this.#written = new LogWords(binlog.progress, LogWord.Written);
    this.#synced = new LogWords(binlog.progress, LogWord.Synced);
    this.#publishedWritten = new Float64Array(topology.shards);
    this.#publishedSynced = new Float64Array(topology.shards);
    this.#control = new ControlWords(topology.control);
    this.counters = countersOf(topology, binlogRole(topology));
    this.#files = new FileTable(binlog.files);
    this.#ids = new JobIds(this.#control.words, ControlWord.JobIds);
    this.#lent = new LentIds(this.#control.words, ControlWord.IdsLent);
    this.#backup = backupWords(topology);
  }

  /** Sets the first id to hand out, before any thread takes one. The log lends it on demand. */
  beginIds(nextId: number): void {
    assert(nextId >= 1, "ids begin at 1");
    this.#ids.reset(nextId);
    this.#lent.publish(nextId - 1);
    this.#firstId = nextId;
  }

  /** The last id taken since the start; 0 for none. */
  get #lastId(): number {
    const { next } = this.#ids;
    assert(next >= this.#firstId, "ids only go up");
    return next === this.#firstId ? 0 : next - 1;
  }

  /** Whether a backup waits for a cut, or gives one back. */
  backupIsDue({ cut }: Storage): boolean {
    return this.#backup.asked !== cut.number;
  }

  /** Tells the log which backup wants a cut. */
  takeBackup({ cut }: Storage): void {
    const { asked } = this.#backup;
    if (asked === cut.number) return;
    cut.want(asked);
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

  /** Records that a job's full record is now in this segment. */
  noteFile(id: number, segment: number): void {
    if (CHECKED) assert(segment > 0, "the record of a job lies in a segment");
    this.#files.set(id, segment);
  }

  /** Yields the recovered batches, and records the file of each job for stats-job. */
  *recovered({ storage, jobs }: OpenedBinlog): Generator<RecoveredBatch> {
    const { shards } = this.#topology;
    for (const batch of jobs((bytes, start, length) => shardOfTube(bytes, start, start + length, shards))) {
      const view = new DataView(batch.bytes.buffer, batch.bytes.byteOffset);
      for (const offsets of batch.jobs) {
        for (const offset of offsets) {
          const id = view.getFloat64(offset + RECORD_ID_AT, true);
          this.noteFile(id, storage.fileOf(id));
        }
      }
      yield batch;
    }
  }

  /** Whether the log must make everything durable and end. */
  get stopping(): boolean {
    return this.#control.isSet(ControlWord.BinlogStop);
  }

  get hasRecords(): boolean {
    for (const ring of this.rings) if (ring.hasMessage) return true;
    return false;
  }

  /** Returns whether a turn has something to do now. */
  hasWork(storage: Storage): boolean {
    if (this.stopping) return true;
    const isWanted = this.hasRecords || storage.lendIsDue(this.#lastId) || this.backupIsDue(storage);
    // A log that waits for room takes nothing before its deadline, however full the rings are.
    return isWanted && !storage.waiting && !storage.isBackedUp;
  }

  /**
   * Appends the records that the shards have published. Calls `onWriterWaits` for each shard that
   * waits for room. Returns the number of records.
   */
  // put 11/18
  takeRecords(storage: Storage, onWriterWaits: (shard: number) => void): number {
    let taken = 0;
    for (let shard = 0; shard < this.rings.length; shard++) {
      const ring = this.rings[shard]!;
      for (let i = 0; i < BATCH_RECORDS; i++) {
        if (storage.waiting || storage.isBackedUp) break;
        const offset = ring.next();
        if (offset === EMPTY) break;
        const number = appendedNumber(ring, offset);
        const bytes = appendedBytes(ring, offset);
        assert(APPEND_HEADER_BYTES + bytes <= ring.int32[offset >> 2]!, "a record ends inside its message");
        storage.append(shard, number, ring.bytes, offset + APPEND_HEADER_BYTES, bytes);
        taken++;
      }
      if (ring.release()) onWriterWaits(shard);
    }
    storage.lendIds(this.#lastId);
    // The following flush may hang in a sync; this makes the hang visible.
    this.#publishUnsynced(storage);
    return taken;
  }

  /**
   * Publishes how far the log is written and synced. Returns true if replies may have waited for
   * it.
   */
  // put 14/18
  publishProgress(storage: Storage): boolean {
    let written = false;
    let synced = false;
    for (let shard = 0; shard < this.#publishedWritten.length; shard++) {
      const writtenUpTo = storage.writtenUpTo(shard);
      if (writtenUpTo !== this.#publishedWritten[shard]) {
        assert(writtenUpTo > this.#publishedWritten[shard]!, "written records stay written");
        this.#publishedWritten[shard] = writtenUpTo;
        this.#written.publish(shard, writtenUpTo);
        written = true;
      }
      const syncedUpTo = storage.syncedUpTo(shard);
      assert(syncedUpTo <= writtenUpTo, "a durable record was written");
      if (syncedUpTo === this.#publishedSynced[shard]) continue;
      assert(syncedUpTo > this.#publishedSynced[shard]!, "durable records stay durable");
      this.#publishedSynced[shard] = syncedUpTo;
      this.#synced.publish(shard, syncedUpTo);
      synced = true;
    }
    const { repliesWaitFor, group } = this.#topology.binlog!;
    if (repliesWaitFor === LogWord.Synced) return synced;
    // In a group, replies may wait for the shared log; the group's thread rings when that has the
    // records.
    return written && group?.repliesWait !== true;
  }

  /**
   * Publishes whether there is room, and the log's figures for `stats`. Returns true if sleeping
   * shards may continue.
   */
  publishState(storage: Storage): boolean {
    const { counters } = this;
    const { waiting, full, oldestSegment, currentSegment, table } = storage;
    const hadWaited = this.#control.isSet(ControlWord.BinlogWaits);
    if (waiting) this.#control.set(ControlWord.BinlogWaits);
    else if (hadWaited) this.#control.clear(ControlWord.BinlogWaits);
    const wasFull = this.#control.isSet(ControlWord.BinlogFull);
    if (full && !wasFull) this.#control.set(ControlWord.BinlogFull);
    else if (wasFull && !full) this.#control.clear(ControlWord.BinlogFull);
    assert(oldestSegment <= currentSegment, "the current segment is not before the oldest");
    counters[Counter.BinlogOldest] = oldestSegment;
    counters[Counter.BinlogCurrent] = currentSegment;
    counters[Counter.BinlogWritten] = storage.recordsWritten;
    counters[Counter.BinlogMigrated] = storage.recordsMigrated;
    const fileBytes = table.fileBytes();
    assert(table.liveBytes <= fileBytes, "live bytes lie in the files");
    counters[Counter.BinlogBytes] = fileBytes;
    counters[Counter.BinlogLiveBytes] = table.liveBytes;
    counters[Counter.BinlogSpareBytes] = table.spareBytes();
    counters[Counter.BinlogCompacts] = storage.compacts ? 1 : 0;
    this.#publishUnsynced(storage);
    const { cut } = storage;
    if (cut.isBusy || this.#publishedKept > 0 || cut.state !== this.#publishedCut) this.#publishCut(cut);
    counters.set(storage.timings.figures, Counter.LogFigures);
    // A put may wait for ids that a full log does not lend.
    const refuses = full && !wasFull;
    const { idsLent } = storage;
    const lends = idsLent !== this.#publishedLent && this.#publishLent(idsLent);
    return lends || refuses || (hadWaited && !waiting);
  }

  #publishUnsynced({ unsyncedSinceMs }: Storage): void {
    this.counters[Counter.BinlogUnsyncedSinceMs] = Number.isFinite(unsyncedSinceMs) ? unsyncedSinceMs : 0;
  }

  /** Returns true if puts may have waited for the ids. */
  #publishLent(idsLent: number): boolean {
    // In a group, the group's thread lends the ids.
    if (this.#topology.binlog!.group !== undefined) return false;
    assert(idsLent > this.#publishedLent, "lent ids only go up");
    this.#publishedLent = idsLent;
    this.#lent.publish(idsLent);
    return true;
  }
}
