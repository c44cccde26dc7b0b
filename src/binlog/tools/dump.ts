// Dumps the jobs of a log as text, one JSON object a line, and reads dumps back.
// docs/architecture/log-format.md describes the format.

import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import type { LoggedBatch, Tally } from "../../message/flow-record.ts";
import { encodePutHead, putRecordBytes, type RecordFields, RecordState } from "../../message/record.ts";
import { readSchedule, TICK_MS_MAX } from "../../message/schedule-record.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_UNIT,
  attributesAreWhole,
  LONG_ATTRIBUTE_UNIT,
} from "../../protocol/job-attribute.ts";
import { JOB_BYTES_MAX_LIMIT, U32_MAX } from "../../protocol/limits.ts";
import { isTubeName } from "../../protocol/tube-name.ts";
import { type BatchFacts, BatchState } from "../../schema/batch.ts";
import { FIXED_COUNTERS, fixedCounters, JOB_COUNTERS, type JobCounters } from "../../schema/job.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import { forgetStarts } from "../disk/checked-json.ts";
import { Storage } from "../live/storage.ts";
import { appendBatch, appendSetting, appendWholeJob } from "../live/whole-job.ts";
import type { OpenOptions } from "../recovery/open-options.ts";
import { segmentNumbers } from "../recovery/read-log.ts";
import { type RecoveredBatch, wholeJobs } from "../recovery/recovered-jobs.ts";
import { emptyLog } from "../segments/books.ts";
import { FOREIGN_ID_LIMIT } from "../segments/segment-format.ts";

// Lines of a dump for batches, and their checks.

/** A batch as a line: with the tallies of shards, until it is complete. */
interface DumpedBatch {
  readonly batch: BatchFacts;
  readonly tallies: readonly Tally[];
}

export const batchLine = ({ facts, tallies }: LoggedBatch): DumpedBatch => ({ batch: facts, tallies });

/** The maximum of each number. */
const FACTS: Readonly<Record<Exclude<keyof BatchFacts, "name">, number>> = {
  number: FOREIGN_ID_LIMIT - 1,
  state: BatchState.Complete,
  outcome: 3,
  keepMs: Number.MAX_VALUE,
  openedAtMs: Number.MAX_VALUE,
  completeAtMs: Number.MAX_VALUE,
  allDone: U32_MAX,
  allFailed: U32_MAX,
};
const TALLY: Readonly<Record<keyof Tally, number>> = {
  number: FACTS.number,
  shard: 2 ** 16 - 1,
  done: U32_MAX,
  failed: U32_MAX,
};

/** Checks the batches of one dump, which must differ. */
class BatchLines {
  readonly #numbers = new Set<number>();
  readonly #names = new Set<string>();

  /** Returns a batch, or a message about its fault. Its number is below the next id. */
  read({ batch, tallies }: Readonly<Record<string, unknown>>, nextId: number): LoggedBatch | string {
    const wrong = wrongIn(batch, FACTS);
    if (wrong !== undefined) return `the batch's ${wrong}`;
    const facts = batch as BatchFacts;
    const name = Buffer.from(`${facts.name}`);
    if (!isTubeName(name, 0, name.length)) return "the name of the batch is invalid";
    if (facts.number === 0 || facts.number >= nextId) return "the number of the batch was never assigned";
    if (facts.state === BatchState.Forgotten) return "the batch is already forgotten";
    if (this.#numbers.has(facts.number) || this.#names.has(facts.name))
      return `the batch ${facts.name} appears twice`;
    this.#numbers.add(facts.number);
    this.#names.add(facts.name);
    if (!Array.isArray(tallies)) return "the tallies of the batch are missing";
    for (const tally of tallies) {
      const fault = wrongIn(tally, TALLY);
      if (fault !== undefined) return `a tally's ${fault}`;
      if ((tally as Tally).number !== facts.number) return "a tally belongs to another batch";
    }
    return { facts, tallies };
  }
}

/** Returns a message about a wrong number in an object. Times may have fractions. */
function wrongIn(value: unknown, most: Readonly<Record<string, number>>): string | undefined {
  const numbers = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const isGood = (key: string): boolean => {
    const number = numbers[key];
    if (typeof number !== "number" || !(number >= 0 && number <= most[key]!)) return false;
    return most[key] === Number.MAX_VALUE || Number.isInteger(number);
  };
  const bad = Object.keys(most).find((key) => !isGood(key));
  return bad === undefined ? undefined : `${bad} is not a valid number`;
}

/**
 * Version 1 has no attributes and no settings, so that older servers can restore it; version 2 has
 * no batches.
 */
const DUMP_VERSION_MIN = 1;
const DUMP_VERSION_ATTRIBUTES = 2;
const DUMP_VERSION = 3;
const PATTERN_BYTES_MAX = 201;
const SETTING_BYTES_MAX = 0xffff;
/** Body bytes per line. */
const LINE_BODY_BYTES = 3 * 1024 * 1024;
const FIXED_NAMES = JOB_COUNTERS.slice(0, FIXED_COUNTERS);
const STATES = Object.entries(RecordState) as [string, RecordState][];

/** The fixed counters have a field each. */
interface JobLine extends Omit<RecordFields, "state" | "counters"> {
  tube: string;
  state: string;
  bodyBytes: number;
  /** Base64, if the job has attributes; see protocol/job-attribute.ts. */
  attributes?: string;
  /** Base64; the rest follows in lines of the form {"more": "…"}. */
  body: string;
}

function stateName(state: RecordState): string {
  return STATES.find(([, value]) => value === state)?.[0] ?? "ready";
}

function textOf(bytes: Uint8Array<SharedArrayBuffer>, encoding: "base64" | "latin1"): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString(encoding);
}

/**
 * The log's settings and batches, and whether its jobs have features that version 1 of a dump can't
 * express.
 */
interface DumpExtras {
  settings: ReadonlyMap<string, string>;
  batches: readonly LoggedBatch[];
  hasAttributes: boolean;
}

const NO_EXTRAS: DumpExtras = { settings: new Map(), batches: [], hasAttributes: false };

/** Yields the lines, each with its line feed. */
export function* dumpLines(
  recovered: Iterable<RecoveredBatch>,
  nextId: number,
  { settings, batches, hasAttributes }: DumpExtras = NO_EXTRAS,
): Generator<string> {
  let crc = 0;
  const line = (value: unknown): string => {
    const text = `${JSON.stringify(value)}\n`;
    crc = crc32(text, crc);
    return text;
  };
  const isPlain = settings.size === 0 && !hasAttributes;
  const withoutBatches = isPlain ? DUMP_VERSION_MIN : DUMP_VERSION_ATTRIBUTES;
  yield line({ runnerbeanDump: batches.length > 0 ? DUMP_VERSION : withoutBatches, nextId });
  for (const [setting, text] of settings) yield line({ setting, text });
  for (const batch of batches) yield line(batchLine(batch));
  let count = 0;
  for (const { fields, tube, attributes, body } of wholeJobs(recovered)) {
    const base64 = (from: number) => textOf(body.subarray(from, from + LINE_BODY_BYTES), "base64");
    const { burySequence, counters, ...facts } = fields;
    const job: JobLine = {
      ...facts,
      ...Object.fromEntries(FIXED_NAMES.map((name, at) => [name, counters[at]])),
      burySequence,
      state: stateName(fields.state),
      tube: textOf(tube, "latin1"),
      bodyBytes: body.length,
      ...(attributes.length === 0 ? {} : { attributes: textOf(attributes, "base64") }),
      body: base64(0),
    };
    yield line(job);
    for (let from = LINE_BODY_BYTES; from < body.length; from += LINE_BODY_BYTES)
      yield line({ more: base64(from) });
    count++;
  }
  yield `${JSON.stringify({ jobs: count, crc32: crc })}\n`;
}

function badLine(number: number, reason: string): BinlogError {
  return new BinlogError(
    "BINLOG_INPUT",
    `Line ${number} of the dump cannot be used: ${reason}`,
    "Make the dump again, or use an older one. Nothing was restored.",
  );
}

/** A job of a dump, whose body grows line by line. */
interface DumpedJob {
  job: JobLine;
  body: Buffer;
}

/** The settings of a tube pattern. */
interface DumpedSetting {
  setting: string;
  text: string;
}

type Dumped = DumpedJob | DumpedSetting | LoggedBatch | number;

/**
 * Checks a dump from its first line to its checksum. Yields its next id, then its settings, batches
 * and jobs.
 */
export async function* readDump(lines: AsyncIterable<string>): AsyncGenerator<Dumped> {
  const reader = new DumpReader();
  for await (const text of lines) {
    const read = reader.line(text);
    if (read !== undefined) yield read;
  }
  reader.end();
}

export class DumpReader {
  #crc = 0;
  /** Number of lines so far. */
  #lines = 0;
  #jobs = 0;
  #ended = false;
  /** The job whose body continues in the next line, and the body bytes so far. */
  #unfinished: DumpedJob | undefined;
  #filledBytes = 0;
  #nextId = 0;
  readonly #batches = new BatchLines();
  readonly #schedules = new Set<string>();

  /** Takes a line; returns a completed job, a setting, a batch, the next id, or undefined. */
  line(text: string): Dumped | undefined {
    const number = ++this.#lines;
    if (this.#ended) throw badLine(number, "it follows the end");
    const read = this.#take(parse(text, number));
    this.#crc = crc32(`${text}\n`, this.#crc);
    return read;
  }

  end(): void {
    if (!this.#ended) throw badLine(this.#lines + 1, "the end is missing");
  }

  #take(value: Record<string, unknown>): Dumped | undefined {
    if (this.#unfinished !== undefined) return this.#more(this.#unfinished, value["more"]);
    if (this.#lines === 1) {
      const version = Number(value["runnerbeanDump"]);
      if (!(version >= DUMP_VERSION_MIN && version <= DUMP_VERSION))
        throw badLine(1, "it is not a dump of a known version");
      const nextId = Number(value["nextId"]);
      if (!Number.isSafeInteger(nextId) || nextId < 1 || nextId > FOREIGN_ID_LIMIT)
        throw badLine(1, "its next id is not a job id");
      this.#nextId = nextId;
      return nextId;
    }
    if (value["setting"] !== undefined) return checkedSetting(value, this.#lines);
    if (value["batch"] !== undefined) return this.#batch(value);
    if (typeof value["jobs"] === "number") {
      if (value["jobs"] !== this.#jobs || value["crc32"] !== this.#crc)
        throw badLine(this.#lines, "the count or the checksum does not match");
      this.#ended = true;
      return undefined;
    }
    const job = value as Readonly<JobLine>;
    checkJob(job, this.#lines);
    if (job.state === "schedule") this.#checkSchedule(job);
    this.#jobs++;
    this.#filledBytes = 0;
    return this.#fill({ job, body: Buffer.alloc(job.bodyBytes) }, job.body);
  }

  #checkSchedule(job: Readonly<JobLine>): void {
    const attributes = attributesOf(job);
    const schedule = readSchedule(attributes, 0, attributes.length);
    if (schedule === undefined || job.deadlineAtMs > TICK_MS_MAX)
      throw badLine(this.#lines, "the schedule is incomplete or invalid");
    if (this.#schedules.has(schedule.name)) throw badLine(this.#lines, "the schedule appears twice");
    this.#schedules.add(schedule.name);
  }

  #batch(value: Record<string, unknown>): LoggedBatch {
    const batch = this.#batches.read(value, this.#nextId);
    if (typeof batch === "string") throw badLine(this.#lines, batch);
    return batch;
  }

  #more(dumped: DumpedJob, more: unknown): DumpedJob | undefined {
    if (typeof more !== "string")
      throw badLine(this.#lines, `the body of job ${dumped.job.id} is not complete`);
    return this.#fill(dumped, more);
  }

  /** Adds a part of the body; returns the job when that was the last part. */
  #fill(dumped: DumpedJob, base64: string): DumpedJob | undefined {
    this.#filledBytes += dumped.body.write(base64, this.#filledBytes, "base64");
    assert(this.#filledBytes <= dumped.job.bodyBytes, "a body is filled within its length");
    this.#unfinished = this.#filledBytes < dumped.job.bodyBytes ? dumped : undefined;
    return this.#unfinished === undefined ? dumped : undefined;
  }
}

function parse(text: string, number: number): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw badLine(number, "it is not a JSON object");
}

function checkedSetting({ setting, text }: Record<string, unknown>, number: number): DumpedSetting {
  if (typeof setting !== "string" || setting.length === 0 || setting.length > PATTERN_BYTES_MAX)
    throw badLine(number, "the pattern of a setting is too long or empty");
  if (typeof text !== "string" || text.length > SETTING_BYTES_MAX)
    throw badLine(number, "the setting is not a text, or too long");
  return { setting, text };
}

/** The maximum of each number of a job, besides its id. */
const JOB_NUMBERS: Readonly<Record<string, number>> = {
  pri: U32_MAX,
  delaySeconds: U32_MAX,
  ttrSeconds: U32_MAX,
  createdAtMs: Number.MAX_VALUE,
  deadlineAtMs: Number.MAX_VALUE,
  ...Object.fromEntries(FIXED_NAMES.map((name) => [name, U32_MAX])),
  burySequence: Number.MAX_VALUE,
  bodyBytes: JOB_BYTES_MAX_LIMIT,
};

function checkJob(job: JobLine, number: number): void {
  const wrong = wrongIn(job, JOB_NUMBERS);
  if (wrong !== undefined) throw badLine(number, wrong);
  if (!Number.isSafeInteger(job.id) || job.id === 0 || job.id >= FOREIGN_ID_LIMIT)
    throw badLine(number, "id is not a job id");
  if (typeof job.body !== "string" || typeof job.tube !== "string")
    throw badLine(number, "tube or body is missing");
  const tube = Buffer.from(job.tube, "latin1");
  if (!isTubeName(tube, 0, tube.length) || tube.toString("latin1") !== job.tube)
    throw badLine(number, "the tube name is invalid");
  if (!STATES.some(([name]) => name === job.state))
    throw badLine(number, `the state ${job.state} is unknown`);
  const attributes = attributesOf(job);
  const { length } = attributes;
  const unit = length > ATTRIBUTE_BYTES_MAX ? LONG_ATTRIBUTE_UNIT : ATTRIBUTE_UNIT;
  const hasSize = length % unit === 0 && length <= ALL_ATTRIBUTE_BYTES_MAX;
  if (!hasSize || !attributesAreWhole(attributes, 0, length))
    throw badLine(number, "the attributes are incomplete or invalid");
}

function attributesOf({ attributes }: JobLine): Buffer {
  return Buffer.from(attributes ?? "", "base64");
}

/** Appends one job of a dump. */
export function restoreJob(storage: Storage, job: JobLine, body: Buffer): void {
  const state = STATES.find(([name]) => name === job.state)![1];
  const tube = Buffer.from(job.tube, "latin1");
  const attributes = attributesOf(job);
  const counters = fixedCounters(job as Partial<JobCounters>);
  const record = Memory.ofSize(putRecordBytes(tube.length, body.length, attributes.length));
  const bodyAt = encodePutHead(record, 0, { ...job, state, counters }, tube, body.length, attributes);
  assert(bodyAt + body.length === record.bytes.length, "a restored job fills its memory");
  record.bytes.set(body, bodyAt);
  appendWholeJob(storage, record, 0);
}

// Creates a log from a dump, in a directory without one.

/**
 * Writes the jobs of a dump into the empty directory of `open` and returns their number. The first
 * file is number 2. Until the last job is durable and a DROP states that number 1 does not count,
 * servers refuse the log for its missing file. If this throws, it leaves nothing behind.
 */
export async function restoreLog(open: OpenOptions, lines: AsyncIterable<string>): Promise<number> {
  const { disk } = open;
  forgetStarts(disk);
  const first = 2;
  const storage = new Storage({ ...open, log: emptyLog(first, 0, 0, 1) });
  const check = (): void => {
    if (storage.failure !== undefined) throw storage.failure;
  };
  try {
    for await (const part of readDump(lines)) {
      if (typeof part === "number") storage.index.maxId = part - 1;
      else if ("setting" in part) appendSetting(storage, part.setting, part.text);
      else if ("facts" in part) appendBatch(storage, part);
      else restoreJob(storage, part.job, part.body);
      check();
    }
    storage.dropBelow(first, 0);
    storage.close(0, true);
    check();
    return storage.index.jobs;
  } catch (error) {
    for (const number of segmentNumbers(disk).reverse()) disk.unlink(segmentName(number));
    disk.syncFolder();
    throw error;
  }
}
