// A log with every kind of record, every state and every attribute, in which no two fields are the
// same, and what has to be left of it whatever becomes of the log.

import assert from "node:assert/strict";
import { Memory } from "../../../src/base/bytes.ts";
import type { Storage } from "../../../src/binlog/live/storage.ts";
import { type OpenedBinlog, openBinlog } from "../../../src/binlog/open-binlog.ts";
import type { OpenOptions } from "../../../src/binlog/recovery/open-options.ts";
import {
  encodeBatch,
  encodeTallied,
  encodeTally,
  type LoggedBatch,
} from "../../../src/message/flow-record.ts";
import {
  encodeDelete,
  encodePieceHead,
  encodePutHead,
  encodeSetting,
  encodeUpdate,
  type RecordFields,
  RecordState,
} from "../../../src/message/record.ts";
import { writeProgress, writeSchedule } from "../../../src/message/schedule-record.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  FIRST_MUTABLE_ATTRIBUTE,
} from "../../../src/protocol/job-attribute.ts";
import { type BatchFacts, BatchOutcome, BatchState } from "../../../src/schema/batch.ts";
import { FIXED_COUNTERS } from "../../../src/schema/job.ts";
import { jobsOfBatch } from "../../support/recovered-jobs.ts";
import { jobText } from "../model.ts";

/** Shards of the log: both write records, and tallies name them. */
export const SHARDS = 2;

/** All that a start finds, in a form that compares. */
interface Content {
  /** Jobs, schedules and remembered keys by id. */
  jobs: Map<number, string>;
  settings: Map<string, string>;
  batches: LoggedBatch[];
  jobCount: number;
  nextId: number;
}

type Values = readonly (readonly [tag: Attribute, value: Uint8Array])[];

const OF_SCHEDULES: ReadonlySet<number> = new Set([
  ...[Attribute.ScheduleName, Attribute.ScheduleRule, Attribute.ScheduleCron],
  Attribute.ScheduleProgress,
]);
/** Jobs that were cancelled are not exported, and the last one is for transfers only. */
const NOT_HERE: ReadonlySet<number> = new Set([Attribute.Cancelled, Attribute.Said]);
const TAGS = Object.values(Attribute).filter((tag) => !OF_SCHEDULES.has(tag) && !NOT_HERE.has(tag));

/** Every attribute of a job with a value of its own; the longest list has several of some. */
function valuesOf(round: number, tags: readonly Attribute[], failures = 1): Values {
  const values = tags.map((tag) => [tag, Buffer.from(`${tag}:${round}`.repeat(1 + (tag % 4)))] as const);
  const more = Array.from({ length: failures - 1 }, (_, n) => Buffer.alloc(250, `failure ${n} of ${round} `));
  return tags.includes(Attribute.Failures)
    ? [...values, ...more.map((value) => [Attribute.Failures, value] as const)]
    : values;
}

const isMutable = (tag: number): boolean => tag >= FIRST_MUTABLE_ATTRIBUTE;
const FIXED = TAGS.filter((tag) => !isMutable(tag));
const MUTABLE = TAGS.filter(isMutable);

function padded(...lists: readonly Values[]): Buffer {
  const writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
  for (const [tag, value] of lists.flat()) writer.text(tag, value, 0, value.length);
  return Buffer.from(writer.bytes.subarray(0, writer.pad()));
}

/** The values of the attributes that `write` writes. */
function written(write: (writer: AttributeWriter) => void): Values {
  const writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
  write(writer);
  const values: [Attribute, Uint8Array][] = [];
  for (let at = 0; at < writer.length; at += 2 + writer.bytes[at + 1]!)
    values.push([writer.bytes[at] as Attribute, writer.bytes.slice(at + 2, at + 2 + writer.bytes[at + 1]!)]);
  return values;
}

function scheduleValues(id: number): Values {
  const schedule = { name: `nightly-${id}`, cron: "5 4 * * 1", zone: "Europe/Berlin", missed: 2, overlap: 1 };
  return [
    ...valuesOf(id, [Attribute.Group, Attribute.Weight, Attribute.Meta]),
    ...written((writer) => {
      writeSchedule(writer, { ...schedule, everyMs: 61_000 + id, ttlMs: 62_000 + id, delayMillis: 630 + id });
    }),
  ];
}

const progressValues = (id: number, round: number): Values =>
  written((writer) => {
    const first = 1000 * round + 10 * id;
    writeProgress(writer, {
      ...{ paused: true, version: first + 1, anchorMs: first + 2, lastMs: first + 3, fired: first + 4 },
      ...{ heldMs: first + 9, lateJobs: 10 },
      ...{
        runs: first + 5,
        missedTicks: first + 6,
        duplicates: first + 7,
        refusals: first + 8,
        skipped: first,
      },
    });
  });

/** Fields of which no two are the same, nor the same as those of another job or round. */
function fieldsOf(id: number, state: RecordState, round: number): RecordFields {
  const first = 2 ** 31 + 10_000 * round + 100 * id;
  return {
    ...{ id, state, pri: first + 1, delaySeconds: first + 2, ttrSeconds: first + 3 },
    counters: Uint32Array.from({ length: FIXED_COUNTERS }, (_, at) => first + 4 + at),
    createdAtMs: 1_790_000_000_000.5 + id,
    deadlineAtMs: 1_800_000_000_000.25 + first,
    burySequence: first + 9,
  };
}

interface Kept {
  tube: string;
  body: string;
  fixed: Values;
  mutable: Values;
}

/** Appends records of two shards, and remembers what they say. */
class RecordWriter {
  readonly jobs = new Map<number, string>();
  readonly settings = new Map<string, string>();
  readonly batches = new Map<number, LoggedBatch>();
  readonly #storage: Storage;
  readonly #memory = Memory.ofSize(200_000);
  readonly #kept = new Map<number, Kept>();
  readonly #counts = [0, 0];
  maxId = 0;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  #append(length: number, shard: number): void {
    this.#storage.append(shard, ++this.#counts[shard]!, this.#memory.bytes, 0, length);
  }

  #expect(fields: RecordFields, { tube, body, fixed, mutable }: Kept): void {
    const { id } = fields;
    this.maxId = Math.max(this.maxId, id);
    this.jobs.set(id, jobText(fields, tube, body, padded(fixed, mutable).toString("hex")));
  }

  /** With `pieceBytes`, only so much of the body is in each record. */
  put(id: number, state: RecordState, kept: Kept, pieceBytes = Number.POSITIVE_INFINITY): void {
    const { tube, body, fixed, mutable } = kept;
    const fields = fieldsOf(id, state, 0);
    this.#kept.set(id, kept);
    this.#expect(fields, kept);
    const shard = id % SHARDS;
    const bytes = Buffer.from(body, "latin1");
    const name = Buffer.from(tube, "latin1");
    let at = encodePutHead(this.#memory, 0, fields, name, bytes.length, padded(fixed, mutable));
    for (let done = 0; ; ) {
      const part = bytes.subarray(done, done + pieceBytes);
      this.#memory.bytes.set(part, at);
      this.#append(at + part.length, shard);
      done += part.length;
      if (done >= bytes.length) return;
      at = encodePieceHead(this.#memory.view, 0, id, done);
    }
  }

  update(id: number, state: RecordState, mutable: Values, tube = ""): void {
    const kept = this.#kept.get(id)!;
    if (tube !== "") kept.tube = tube;
    kept.mutable = mutable;
    const fields = fieldsOf(id, state, 1);
    this.#expect(fields, kept);
    const isPlain = tube === "" && mutable.length === 0;
    const name = Buffer.from(tube, "latin1");
    const length = isPlain
      ? encodeUpdate(this.#memory, 0, fields)
      : encodeUpdate(this.#memory, 0, fields, name, padded(mutable));
    this.#append(length, id % SHARDS);
  }

  delete(id: number): void {
    this.jobs.delete(id);
    this.#append(encodeDelete(this.#memory.view, 0, id), id % SHARDS);
  }

  set(pattern: string, text: string): void {
    if (text === "") this.settings.delete(pattern);
    else this.settings.set(pattern, text);
    this.#append(encodeSetting(this.#memory, 0, Buffer.from(pattern), Buffer.from(text)), 0);
  }

  batch(facts: BatchFacts): void {
    const { number, state } = facts;
    this.maxId = Math.max(this.maxId, number);
    const tallies = state === BatchState.Complete ? [] : (this.batches.get(number)?.tallies ?? []);
    this.batches.set(number, { facts, tallies });
    if (state === BatchState.Forgotten) this.batches.delete(number);
    this.#append(encodeBatch(this.#memory, 0, facts, 0), number % SHARDS);
  }

  /** The job is gone, and the shard counts it. */
  tally(id: number, number: number, shard: number, done: number, failed: number): void {
    this.jobs.delete(id);
    const { facts, tallies } = this.batches.get(number)!;
    const others = tallies.filter((tally) => tally.shard !== shard);
    const all = [...others, { number, shard, done, failed }].sort((a, b) => a.shard - b.shard);
    this.batches.set(number, { facts, tallies: all });
    const length = encodeTally(this.#memory.view, 0, id, number, shard);
    encodeTallied(this.#memory.view, 0, done, failed);
    this.#append(length, shard);
  }
}

const plain = (id: number): Kept => ({ tube: `tube-${id}`, body: `body ${id}`, fixed: [], mutable: [] });
const full = (id: number): Kept => ({
  ...plain(id),
  fixed: valuesOf(id, FIXED),
  mutable: valuesOf(id, MUTABLE),
});

function writeJobs(writer: RecordWriter): void {
  const { ready, delayed, buried, remembered, schedule } = RecordState;
  const longBody = (id: number): string => `${id} `.repeat(400);
  for (const [at, state] of [ready, delayed, buried].entries()) {
    writer.put(10 + at, state, plain(10 + at));
    writer.put(20 + at, state, full(20 + at));
    writer.put(30 + at, state, { ...full(30 + at), mutable: valuesOf(30, MUTABLE, 9) });
    writer.put(40 + at, state, { ...full(40 + at), body: longBody(at) }, 300);
    // To each state from another one, by an UPDATE of each form.
    writer.put(50 + at, buried, plain(50 + at));
    writer.update(50 + at, state, []);
    writer.put(60 + at, ready, full(60 + at));
    writer.update(60 + at, state, valuesOf(7, MUTABLE), `moved-far-away-${at}`);
    writer.put(70 + at, delayed, full(70 + at));
    writer.update(70 + at, state, []);
    writer.put(80 + at, ready, { ...plain(80 + at), body: longBody(80 + at) }, 500);
    writer.update(80 + at, state, valuesOf(8, MUTABLE, 6), "t");
    // Its head keeps its length.
    writer.put(90 + at, ready, full(90 + at));
    writer.update(90 + at, state, valuesOf(91, MUTABLE), "tube-99");
  }
  writer.put(100, ready, full(100));
  writer.put(100, remembered, { ...full(100), body: "" });
  writer.put(101, ready, { ...plain(101), body: longBody(101) }, 300);
  writer.put(101, remembered, { ...full(101), body: "" });
  for (const id of [110, 111]) {
    const mutable = progressValues(id, 0);
    writer.put(id, schedule, { ...plain(id), fixed: scheduleValues(id), mutable });
  }
  writer.update(111, schedule, progressValues(111, 1));
  for (const id of [120, 121, 122]) writer.put(id, ready, full(id));
  for (const id of [120, 121, 122]) writer.delete(id);
  writer.put(123, ready, { ...plain(123), body: longBody(123) }, 300);
  writer.delete(123);
  writer.put(124, schedule, { ...plain(124), fixed: scheduleValues(124), mutable: progressValues(124, 0) });
  writer.delete(124);
}

function writeBatches(writer: RecordWriter): void {
  const facts = (number: number, state: BatchState, outcome: BatchOutcome): BatchFacts => ({
    ...{ number, name: `batch/${number}`, state, outcome, keepMs: 1500.5 + number },
    ...{ openedAtMs: 1_790_000_000_000.25 + number, completeAtMs: 0, allDone: 0, allFailed: 0 },
  });
  const { Open, Committed, Cancelled, Complete, Forgotten } = BatchState;
  writer.batch(facts(200, Open, BatchOutcome.None));
  for (const [at, state] of [Committed, Cancelled, Complete, Forgotten].entries()) {
    const number = 201 + at;
    writer.batch(facts(number, Open, BatchOutcome.None));
    for (let member = 0; member < 4; member++) {
      const id = 300 + 10 * at + member;
      writer.put(id, RecordState.ready, plain(id));
      writer.tally(id, number, member % SHARDS, 10 * at + member, 20 + 10 * at + member);
      // Its key is all that is left of it.
      if (member > 1) writer.put(id, RecordState.remembered, { ...full(id), body: "" });
    }
    writer.batch({ ...facts(number, state, BatchOutcome.None), keepMs: 9000 + number });
  }
  const outcomes = [BatchOutcome.Success, BatchOutcome.Failure, BatchOutcome.Cancelled];
  for (const [at, outcome] of outcomes.entries()) {
    const ended = facts(210 + at, Complete, outcome);
    writer.batch(facts(210 + at, Committed, BatchOutcome.None));
    writer.batch({ ...ended, completeAtMs: 1_791_000_000_000 + at, allDone: 71 + at, allFailed: 81 + at });
  }
}

function writeSettings(writer: RecordWriter): void {
  writer.set("default", "max-jobs=5");
  writer.set("mail*", "max-attempts=3 retry-delay=10");
  writer.set("default", "max-jobs=6 max-attempts=7");
  writer.set("gone", "max-jobs=1");
  writer.set("gone", "");
}

/** What may have the highest id of a log, which no start may give again. */
export const LASTS = [
  "job",
  "schedule",
  "deleted job",
  "remembered key",
  "batch",
  "forgotten batch",
] as const;
export type Last = (typeof LASTS)[number];

function writeLast(writer: RecordWriter, last: Last): void {
  const id = 999;
  const schedule = { ...plain(id), fixed: scheduleValues(id), mutable: progressValues(id, 0) };
  const batch: BatchFacts = {
    ...{ number: id, name: "last", state: BatchState.Open, outcome: BatchOutcome.None, keepMs: 1 },
    ...{ openedAtMs: 2, completeAtMs: 0, allDone: 0, allFailed: 0 },
  };
  if (last === "schedule") writer.put(id, RecordState.schedule, schedule);
  else if (last === "batch" || last === "forgotten batch") writer.batch(batch);
  else writer.put(id, RecordState.ready, plain(id));
  if (last === "remembered key") writer.put(id, RecordState.remembered, { ...full(id), body: "" });
  if (last === "deleted job") writer.delete(id);
  if (last === "forgotten batch") writer.batch({ ...batch, state: BatchState.Forgotten });
}

/** Writes such a log into an empty one, flushed, and returns its content. */
export function writeEveryRecord(storage: Storage, last: Last = "job"): Content {
  const writer = new RecordWriter(storage);
  writeJobs(writer);
  writeBatches(writer);
  writeSettings(writer);
  writeLast(writer, last);
  storage.flush(0);
  const { jobs, settings, batches, maxId } = writer;
  const listed = [...batches.values()].sort((a, b) => a.facts.number - b.facts.number);
  const isJob = (text: string): boolean => ["1", "2", "3"].includes(text.split(" ")[1]!);
  const jobCount = [...jobs.values()].filter(isJob).length;
  return { jobs, settings, batches: listed, jobCount, nextId: maxId + 1 };
}

function contentOf(opened: OpenedBinlog): Content {
  const jobs = new Map<number, string>();
  const shardOf = (bytes: Uint8Array, start: number, length: number): number =>
    bytes[start + length - 1]! % SHARDS;
  for (const batch of opened.jobs(shardOf))
    for (const { shard, fields, tube, attributes, body } of jobsOfBatch(batch)) {
      assert.equal(shard, shardOf(Buffer.from(tube, "latin1"), 0, tube.length), "the shard of its tube");
      assert.ok(!jobs.has(fields.id), `job ${fields.id} comes once`);
      jobs.set(fields.id, jobText(fields, tube, body.toString("latin1"), attributes));
    }
  const { jobCount, nextId, batches } = opened;
  return { jobs, settings: new Map(opened.settings), batches: [...batches], jobCount, nextId };
}

/** Opens a log and closes it again. */
export async function contentAfterStart(options: OpenOptions): Promise<Content> {
  const opened = await openBinlog(options);
  const content = contentOf(opened);
  opened.storage.close(0);
  return content;
}
