// The shard's side of the log: turns changes of jobs into records and appends them to the ring to
// the binlog.

import { assert, CHECKED } from "../../base/assert.ts";
import { asciiBytes, Memory } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { type JobPage, JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Schedule, ScheduleFacts, ScheduleSink } from "../../engine/schedules.ts";
import type { RecordSink } from "../../engine/state/effects.ts";
import type { ColocatedLogRole } from "../../loop/role.ts";
import { ROOM_SLEEP_MS } from "../../loop/waiting-policy.ts";
import {
  BATCH_FIXED_BYTES,
  encodeBatch,
  encodeTallied,
  encodeTally,
  TALLY_BYTES,
} from "../../message/flow-record.ts";
import {
  APPEND_HEADER_BYTES,
  DELETE_BYTES,
  emptyRecordFields,
  encodeDelete,
  encodePieceHead,
  encodePutHead,
  encodeSetting,
  encodeUpdate,
  FullRecordOf,
  MAX_RECORD_BYTES,
  PIECE_HEADER_BYTES,
  RECORD_FIXED_BYTES,
  type RecordFields,
  RecordState,
  SETTING_HEADER_BYTES,
  UPDATE_BYTES,
  writeAppendHeader,
} from "../../message/record.ts";
import { SCHEDULE_HEAD_BYTES_MAX, writeProgress, writeSchedule } from "../../message/schedule-record.ts";
import { binlogRole, ControlWord, Counter, countersOf, type Topology } from "../../message/topology.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_UNIT,
  Attribute,
  AttributeWriter,
} from "../../protocol/job-attribute.ts";
import { TUBE_NAME_BYTES_MAX } from "../../protocol/limits.ts";
import type { Doorbell, DoorbellOwner } from "../../ring/doorbell.ts";
import { FULL, RingWriter } from "../../ring/ring.ts";
import {
  ControlWords,
  FileTable,
  isLent,
  JobIds,
  type JobPart,
  LentIds,
  RestateWords,
} from "../../ring/shared-words.ts";
import type { BatchFacts } from "../../schema/batch.ts";
import { FIXED_COUNTERS } from "../../schema/job.ts";

// Converts a job's row to the fields of a record.

/**
 * Fills in everything but the burial, with the given state. `wallOffsetMs` is wall clock minus
 * monotonic clock.
 */
export function fillRecordFields(
  fields: RecordFields,
  page: JobPage,
  row: number,
  state: JobState,
  wallOffsetMs: number,
): void {
  fields.id = page.id[row]!;
  assert(fields.id > 0, "a record has the id of a job");
  fields.state =
    state === JobState.Delayed
      ? RecordState.delayed
      : state === JobState.Buried
        ? RecordState.buried
        : RecordState.ready;
  fields.pri = page.pri[row]!;
  fields.delaySeconds = page.delaySeconds[row]!;
  fields.ttrSeconds = page.ttrSeconds[row]!;
  fields.createdAtMs = page.createdAtMs[row]! + wallOffsetMs;
  fields.deadlineAtMs = state === JobState.Delayed ? page.deadlineAtMs[row]! + wallOffsetMs : 0;
  const countersAt = row * FIXED_COUNTERS;
  for (let k = 0; k < FIXED_COUNTERS; k++) fields.counters[k] = page.counters[countersAt + k]!;
  fields.burySequence = 0;
}

// Waits, in the middle of a command, for room in the ring to the log.
//
// A record is never dropped, and a command is never half executed. The thread therefore sleeps
// where it stands, deep inside the engine. Only this wait and that for a lent id (`#awaitLend`)
// aren't points of its loop.

/**
 * A log in the shard's own thread. `log` is undefined until it is open, and nothing waits for it
 * before that.
 */
export interface OwnLog {
  log: ColocatedLogRole | undefined;
}

export interface RecordRoom {
  /** The doorbell of this thread. */
  readonly doorbell: DoorbellOwner;
  readonly binlog: Doorbell;
  /** Sleeps until the doorbell is rung, or for a while. The sleep was announced before. */
  readonly sleep: () => void;
}

/**
 * Runs the log as the `sleep` of a shard that shares its thread with the log, since no other thread
 * would run it.
 */
export function turnLog({ log }: OwnLog, doorbell: DoorbellOwner, nowMs: number): void {
  if (log?.turn(nowMs)) doorbell.cancel();
  else doorbell.sleep(Math.max(0, Math.min(ROOM_SLEEP_MS, (log?.nextDueAtMs ?? nowMs) - nowMs)));
}

/**
 * Bytes that a put may add to the mutable attributes of a job whose body it replaces: expiry,
 * batches, a failure that names one, padding.
 */
const LATER_BYTES_MAX = 512;
/** Parts of damaged records that are recorded again in one turn. */
const PARTS_PER_TURN = 8;
const NO_ATTRIBUTES = new Uint8Array(0);
const NO_NAME = new Uint8Array(0);

export class RecordLog implements RecordSink, ScheduleSink {
  /**
   * Number of the last record. The binlog publishes up to which number records are written and
   * durable.
   */
  lastNumber = 0;
  /** Number of the last record that the binlog can see. */
  shownNumber = 0;
  readonly ring: RingWriter;
  readonly #shard: number;
  readonly #room: RecordRoom;
  readonly #control: ControlWords;
  /** Those of the log. */
  readonly #counters: Float64Array;
  readonly #lent: LentIds;
  readonly #ids: JobIds;
  readonly #memory: Memory;
  readonly #files: FileTable;
  readonly #fields: RecordFields = emptyRecordFields();
  readonly #scheduleFields: RecordFields = emptyRecordFields();
  readonly #attributeWriter = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
  readonly #recordBytesMax: number;
  readonly #restate: RestateWords;
  /** The last request of the log, and how many of its parts are done. */
  #restated = 0;
  #partsDone = 0;
  /** Set by `attach`, before the first record. */
  #engine!: Engine;
  #burySequence = 0;
  /** The last value read of the highest id that the log has lent. */
  #lentLow = 0;
  /** The log's clock minus the monotonic clock, ms. Records outlive the monotonic clock. */
  #clockOffsetMs = Number.NaN;

  constructor(topology: Topology, shard: number, room: RecordRoom) {
    const { binlog } = topology;
    assert(binlog !== undefined, "only a server with a log has records");
    this.#shard = shard;
    this.#room = room;
    this.#control = new ControlWords(topology.control);
    this.#counters = countersOf(topology, binlogRole(topology));
    this.#lent = new LentIds(this.#control.words, ControlWord.IdsLent);
    this.#ids = new JobIds(this.#control.words, ControlWord.JobIds);
    this.ring = new RingWriter(binlog.rings[shard]!);
    this.#memory = new Memory(this.ring.bytes);
    this.#files = new FileTable(binlog.files);
    this.#restate = new RestateWords(binlog.restate, topology.shards);
    this.#recordBytesMax = Math.min(MAX_RECORD_BYTES, this.ring.messageBytesMax - APPEND_HEADER_BYTES);
    assert(this.#recordBytesMax > RECORD_FIXED_BYTES, "a record has room for more than its head");
  }

  /**
   * Sets the engine whose jobs are logged, the highest burial number in the log, and the log's
   * clock minus the monotonic clock. Called before the first record.
   */
  attach(engine: Engine, burySequence: number, clockOffsetMs: number): void {
    assert(Number.isFinite(clockOffsetMs), "a log has a clock");
    this.#clockOffsetMs = clockOffsetMs;
    assert((this.#engine as Engine | undefined) === undefined, "a log gets its engine once");
    this.#engine = engine;
    assert(burySequence >= 0 && this.lastNumber === 0, "a log gets its engine before its first record");
    this.#burySequence = burySequence;
    this.#lentLow = this.#lent.low;
  }

  /**
   * Whether a record of any size fits now. None does while the log cannot write: otherwise more
   * commands would be acknowledged.
   */
  get hasRoom(): boolean {
    return !this.#control.isSet(ControlWord.BinlogWaits) && this.ring.hasRoom(this.ring.messageBytesMax);
  }

  /**
   * Makes all records so far visible to the binlog. Returns whether there were new ones: if so, the
   * binlog must be rung.
   */
  publish(): boolean {
    assert(this.lastNumber >= this.shownNumber, "records become visible in order");
    this.shownNumber = this.lastNumber;
    return this.ring.publish();
  }

  /** Asks the binlog to ring when it has made room, if room is missing. */
  wantRoom(): void {
    if (!this.hasRoom) this.ring.wantRoom();
  }

  /** Returns the number of the log file with the job's full record. */
  fileOf(slot: number): number {
    const page = this.#engine.jobs.pageOf(slot);
    return this.#files.find(page.id[rowOf(slot)]!) || page.file[rowOf(slot)]!;
  }

  /** Whether the log has room for new jobs. */
  roomForPut(): boolean {
    return !this.#control.isSet(ControlWord.BinlogFull) && !this.#control.isSet(ControlWord.SharedLogFull);
  }

  fitsOneRecord(slot: number, bodyBytes: number): boolean {
    const headBytes = RECORD_FIXED_BYTES + this.#engine.tubeOf(slot).name.length;
    const attributeBytes = this.#attributes(slot, true, true).length + LATER_BYTES_MAX;
    return headBytes + attributeBytes + bodyBytes <= this.#recordBytesMax;
  }

  /**
   * Records a replaced job. `isLent` compares only low halves, and this id may be too old for it.
   */
  replaced(slot: number): void {
    const isWhole = this.put(slot, false);
    assert(isWhole, "a body that replaces another fits into one record");
  }

  put(slot: number, isNew = true): boolean {
    const engine = this.#engine;
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const id = page.id[row]!;
    // From here on, other clients may see the id.
    if (isNew && !isLent(this.#lentLow, id) && !this.#awaitLend(id)) return false;
    const tube = engine.tubeOf(slot).nameBytes;
    const attributes = page.extras === undefined ? NO_ATTRIBUTES : this.#attributes(slot, true, true);
    const bodyBytes = page.bodyBytes[row]!;
    const body = page.body[row]!;
    const headBytes = RECORD_FIXED_BYTES + tube.length + attributes.length;
    const inlineBytes = Math.min(bodyBytes, this.#recordBytesMax - headBytes);
    assert(inlineBytes >= 0, "a record's head fits into a message");
    page.file[row] = this.#counters[Counter.BinlogCurrent]!;
    const at = this.#claim(headBytes + inlineBytes);
    const bodyAt = encodePutHead(this.#memory, at, this.#fill(slot), tube, bodyBytes, attributes);
    if (CHECKED) assert(bodyAt === at + headBytes, "the body of a record follows its head");
    engine.bodies.read(body, 0, this.ring.bytes, bodyAt, inlineBytes);
    return inlineBytes === bodyBytes || this.#putRest(id, body, inlineBytes, bodyBytes);
  }

  /** Records the rest of a body that one record has no room for. */
  #putRest(id: number, body: number, from: number, bodyBytes: number): boolean {
    for (let done = from; done < bodyBytes; ) {
      // A log that fills up has spare room for operations in flight, but not for a body of
      // arbitrary length.
      if (!this.roomForPut()) {
        encodeDelete(this.#memory.view, this.#claim(DELETE_BYTES), id);
        return false;
      }
      const pieceBytes = Math.min(bodyBytes - done, this.#recordBytesMax - PIECE_HEADER_BYTES);
      assert(pieceBytes > 0, "a piece of a body has bytes");
      const pieceAt = this.#claim(PIECE_HEADER_BYTES + pieceBytes);
      const partAt = encodePieceHead(this.#memory.view, pieceAt, id, done);
      this.#engine.bodies.read(body, done, this.ring.bytes, partAt, pieceBytes);
      done += pieceBytes;
    }
    return true;
  }

  /**
   * Waits until the log has lent the id. That happens once in tens of thousands of puts, and
   * usually the log lends long before. Returns false if the log is full: it lends nothing then, and
   * everything else has to continue.
   */
  #awaitLend(id: number): boolean {
    assert(id > 0, "a put that waits for a lend has an id");
    const { doorbell, binlog, sleep } = this.#room;
    for (;;) {
      this.#lentLow = this.#lent.low;
      if (isLent(this.#lentLow, id)) return true;
      if (!this.roomForPut()) return false;
      // The log itself checks whether ids have to be lent.
      this.publish();
      binlog.ring();
      doorbell.prepare();
      if (isLent(this.#lent.low, id) || !this.roomForPut()) doorbell.cancel();
      else sleep();
    }
  }

  updated(slot: number): void {
    const { extras, failures, state } = this.#engine.jobs.pageOf(slot);
    const isPlain =
      extras === undefined && failures === undefined && state[rowOf(slot)] !== JobState.Reserved;
    const attributes = isPlain ? NO_ATTRIBUTES : this.#attributes(slot, false, true);
    const isMoved = !isPlain && this.#engine.policies.attributes.isMoved(slot);
    const tube = isMoved ? this.#engine.tubeOf(slot).nameBytes : NO_NAME;
    if (CHECKED) assert(attributes.length % 4 === 0, "attributes are padded to whole words");
    const at = this.#claim(UPDATE_BYTES + tube.length + attributes.length);
    encodeUpdate(this.#memory, at, this.#fill(slot), tube, attributes);
  }

  remembered(slot: number): void {
    const page = this.#engine.jobs.pageOf(slot);
    this.#remember(slot, page.id[rowOf(slot)]!, 0);
  }

  /** Takes an id that need not be lent, because no client sees it. */
  left(slot: number): number {
    if (!this.roomForPut()) return 0;
    const id = this.#ids.take();
    const page = this.#engine.jobs.pageOf(slot);
    this.#remember(slot, id, page.id[rowOf(slot)]!);
    return id;
  }

  #remember(slot: number, id: number, keyJob: number): void {
    const tube = this.#engine.tubeOf(slot).nameBytes;
    const attributes = this.#attributes(slot, true, false, keyJob);
    assert(attributes.length > 0, "a remembered key is among the attributes");
    const at = this.#claim(RECORD_FIXED_BYTES + tube.length + attributes.length);
    const fields = this.#fill(slot);
    fields.id = id;
    fields.state = RecordState.remembered;
    encodePutHead(this.#memory, at, fields, tube, 0, attributes);
  }

  /** Records a change of a pattern's settings. */
  set(pattern: string, text: string): void {
    assert(pattern !== "", "a record of settings names its tubes");
    const at = this.#claim(SETTING_HEADER_BYTES + pattern.length + text.length);
    encodeSetting(this.#memory, at, asciiBytes(pattern), asciiBytes(text));
  }

  /** Returns the attributes of a job, padded. They are valid until the next call. */
  #attributes(slot: number, fixed: boolean, mutable: boolean, keyJob = 0): Uint8Array {
    const writer = this.#attributeWriter;
    const { attributes } = this.#engine.policies;
    writer.clear();
    if (fixed) attributes.writeFixed(slot, writer, this.#clockOffsetMs);
    if (keyJob > 0) writer.float64(Attribute.KeyJob, keyJob);
    if (mutable) attributes.writeMutable(slot, writer, this.#clockOffsetMs);
    return writer.bytes.subarray(0, writer.pad());
  }

  deleted(id: number): void {
    assert(id > 0, "a record of a delete names a job");
    encodeDelete(this.#memory.view, this.#claim(DELETE_BYTES), id);
  }

  ended(id: number, batch: number, done: number, failed: number): void {
    assert(id > 0 && batch > 0, "a record of a member's end names both");
    const at = this.#claim(TALLY_BYTES);
    assert(done + failed > 0, "a member that ended is counted");
    encodeTally(this.#memory.view, at, id, batch, this.#shard);
    encodeTallied(this.#memory.view, at, done, failed);
  }

  /**
   * Records a batch that is opened. Returns false if the log is full: the batch's number was not
   * lent, and the batch must be refused.
   */
  openBatch(batch: Readonly<BatchFacts>): boolean {
    const { number } = batch;
    assert(number > 0, "a recorded batch has a number");
    if (!this.roomForPut() || (!isLent(this.#lentLow, number) && !this.#awaitLend(number))) return false;
    this.batch(batch);
    return true;
  }

  /** Records what the home of a batch has decided. */
  batch(batch: Readonly<BatchFacts>): void {
    assert(batch.name.length <= TUBE_NAME_BYTES_MAX, "the name of a batch fits into a record");
    const at = this.#claim(BATCH_FIXED_BYTES + batch.name.length);
    encodeBatch(this.#memory, at, batch, this.#clockOffsetMs);
  }

  // --- schedules: message/schedule-record.ts -----------------------------------------------------

  /** Returns whether a schedule with a body of this size fits into one record. */
  fits({ name, tube, timing, attributes }: ScheduleFacts, bodyBytes: number): boolean {
    const textBytes = name.length + tube.length + timing.cron.length + timing.zone.length + attributes.length;
    const headBytes = RECORD_FIXED_BYTES + SCHEDULE_HEAD_BYTES_MAX + ATTRIBUTE_UNIT;
    return headBytes + textBytes + bodyBytes <= this.#recordBytesMax;
  }

  scheduled(schedule: Schedule, isNew: boolean): boolean {
    const { id } = schedule;
    // An old id must not be compared with the ids that are lent now.
    if (!this.roomForPut() || (isNew && !isLent(this.#lentLow, id) && !this.#awaitLend(id))) return false;
    const tube = asciiBytes(schedule.facts.tube);
    const attributes = this.#scheduleAttributes(schedule, true);
    const { body, bodyBytes } = schedule;
    const at = this.#claim(RECORD_FIXED_BYTES + tube.length + attributes.length + bodyBytes);
    const fields = this.#fillSchedule(schedule);
    const bodyAt = encodePutHead(this.#memory, at, fields, tube, bodyBytes, attributes);
    assert(bodyAt + bodyBytes <= this.ring.bytes.length, "the record of a schedule ends in its ring");
    this.#engine.bodies.read(body, 0, this.ring.bytes, bodyAt, bodyBytes);
    return true;
  }

  ticked(schedule: Schedule): void {
    assert(schedule.id > 0, "a schedule with a tick has an id");
    const attributes = this.#scheduleAttributes(schedule, false);
    const at = this.#claim(UPDATE_BYTES + attributes.length);
    encodeUpdate(this.#memory, at, this.#fillSchedule(schedule), NO_NAME, attributes);
  }

  unscheduled(id: number): void {
    assert(id > 0, "a schedule has an id");
    encodeDelete(this.#memory.view, this.#claim(DELETE_BYTES), id);
  }

  #fillSchedule({ id, facts, nextMs }: Schedule): RecordFields {
    assert(nextMs > 0, "a schedule has a next time or none");
    const fields = this.#scheduleFields;
    fields.id = id;
    fields.state = RecordState.schedule;
    fields.pri = facts.pri;
    fields.delaySeconds = facts.delaySeconds;
    fields.ttrSeconds = facts.ttrSeconds;
    fields.deadlineAtMs = nextMs === Number.POSITIVE_INFINITY ? 0 : nextMs;
    return fields;
  }

  /** Returns the attributes, padded, valid until the next call. */
  #scheduleAttributes(schedule: Schedule, fixed: boolean): Uint8Array {
    const writer = this.#attributeWriter;
    writer.clear();
    const { facts, name } = schedule;
    if (fixed) {
      const { missed, overlap, ttlMs, delayMillis, timing, attributes } = facts;
      writeSchedule(writer, { name, missed, overlap, ttlMs, delayMillis, ...timing });
      for (let at = 0; at + 2 <= attributes.length; at += 2 + attributes[at + 1]!)
        writer.text(attributes[at] as Attribute, attributes, at + 2, at + 2 + attributes[at + 1]!);
    }
    writeProgress(writer, schedule);
    return writer.bytes.subarray(0, writer.pad());
  }

  // --- records that the log can no longer read: ring/shared-words.ts ----------------------------

  /** Whether the log asks for records of jobs again. */
  get hasRequest(): boolean {
    return this.#restate.asked !== this.#restated;
  }

  /** Records a few of the requested parts that belong to this shard. */
  restate(): void {
    const { asked, parts } = this.#restate;
    const end = Math.min(parts.length, this.#partsDone + PARTS_PER_TURN);
    while (this.#partsDone < end) {
      // A full log asks again once it has room.
      if (this.roomForPut()) this.#restatePart(parts[this.#partsDone]!);
      this.#partsDone++;
    }
    if (this.#partsDone < parts.length) return;
    this.#partsDone = 0;
    this.#restated = asked;
    this.#restate.answer(this.#shard, asked);
  }

  #restatePart({ id, from, bytes }: JobPart): void {
    if (from === FullRecordOf.schedule) this.#restateSchedule(id);
    else if (from === FullRecordOf.key) this.#restateKey(id);
    else this.#restateJob(id, from, bytes);
  }

  #restateJob(id: number, from: number, bytes: number): void {
    const engine = this.#engine;
    const slot = engine.find(id);
    if (slot === NO_SLOT) return;
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    // The log may already have the job's arrival on another shard. It asks again later.
    if (page.state[row] === JobState.Moving) return;
    const body = page.body[row]!;
    const bodyBytes = page.bodyBytes[row]!;
    if (from >= 0) {
      if (from + bytes > bodyBytes || PIECE_HEADER_BYTES + bytes > this.#recordBytesMax) return;
      const at = this.#claim(PIECE_HEADER_BYTES + bytes);
      engine.bodies.read(
        body,
        from,
        this.ring.bytes,
        encodePieceHead(this.#memory.view, at, id, from),
        bytes,
      );
      return;
    }
    const tube = engine.tubeOf(slot).nameBytes;
    // The pieces stay as they are, so the PUT has as much of the body as before. If its attributes
    // have grown meanwhile, they follow in an UPDATE.
    const inlineBytes = bodyBytes - bytes;
    const attributeBytesMax = this.#recordBytesMax - RECORD_FIXED_BYTES - tube.length - inlineBytes;
    let attributes = this.#attributes(slot, true, true);
    const areTooLong = attributes.length > attributeBytesMax;
    if (areTooLong) attributes = this.#attributes(slot, true, false);
    if (inlineBytes < 0 || attributes.length > attributeBytesMax) return;
    const headBytes = RECORD_FIXED_BYTES + tube.length + attributes.length;
    page.file[row] = this.#counters[Counter.BinlogCurrent]!;
    const at = this.#claim(headBytes + inlineBytes);
    const bodyAt = encodePutHead(this.#memory, at, this.#fill(slot), tube, bodyBytes, attributes);
    engine.bodies.read(body, 0, this.ring.bytes, bodyAt, inlineBytes);
    if (areTooLong) this.updated(slot);
  }

  #restateSchedule(id: number): void {
    for (const schedule of this.#engine.schedules.table.values())
      if (schedule.id === id && !schedule.isFrozen) this.scheduled(schedule, false);
  }

  /** Records a unique key that is remembered without its job. */
  #restateKey(id: number): void {
    const { keys } = this.#engine.policies;
    const { table } = keys;
    for (const row of table.rows()) {
      const record = table.recordOf(row);
      const isOfJob = record === 0 && table.idOf(row) === id && keys.jobWith(row) === NO_SLOT;
      if (record !== id && !isOfJob) continue;
      const cell = table.cellOf(row);
      const tube = cell.slice(2, 2 + cell[0]!);
      const writer = this.#attributeWriter;
      writer.clear();
      writer.text(Attribute.UniqueKey, cell, 2 + tube.length, cell.length);
      writer.float64(Attribute.UniqueUntil, table.untilOf(row) + this.#clockOffsetMs);
      if (record > 0) writer.float64(Attribute.KeyJob, table.idOf(row));
      const attributes = writer.bytes.subarray(0, writer.pad());
      const fields = { ...emptyRecordFields(), id, state: RecordState.remembered };
      const at = this.#claim(RECORD_FIXED_BYTES + tube.length + attributes.length);
      encodePutHead(this.#memory, at, fields, tube, 0, attributes);
      return;
    }
  }

  // --- the ring ----------------------------------------------------------------------------------

  /**
   * Claims room for one record with the next number. If the ring is full it waits; it never drops a
   * record.
   */
  #claim(recordBytes: number): number {
    assert(recordBytes <= this.#recordBytesMax, "a record fits into a message");
    let offset = this.ring.claim(APPEND_HEADER_BYTES + recordBytes);
    while (offset === FULL) {
      this.#waitForRoom();
      offset = this.ring.claim(APPEND_HEADER_BYTES + recordBytes);
    }
    return writeAppendHeader(this.ring, offset, recordBytes, ++this.lastNumber);
  }

  /** The binlog never waits for a shard, so this wait ends. */
  #waitForRoom(): void {
    const { ring } = this;
    const { doorbell, binlog, sleep } = this.#room;
    if (this.publish()) binlog.ring();
    doorbell.prepare();
    ring.wantRoom();
    if (ring.hasRoom(ring.messageBytesMax)) doorbell.cancel();
    else sleep();
  }

  #fill(slot: number): RecordFields {
    const page = this.#engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (CHECKED) assert(page.state[row] !== JobState.Free, "a record describes an existing job");
    const fields = this.#fields;
    fillRecordFields(fields, page, row, page.state[row] as JobState, this.#clockOffsetMs);
    if (fields.state === RecordState.buried) fields.burySequence = ++this.#burySequence;
    return fields;
  }
}
