// Reads a log of beanstalkd: the last state of every job, and the position of its body in the
// files.

import { CR, LF } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { copyOfFields, emptyRecordFields, type RecordFields, RecordState } from "../../message/record.ts";
import { FIXED_COUNTERS as COUNTERS, JobCounter } from "../../schema/job.ts";
import { BinlogError } from "../disk/binlog-error.ts";
import { type Disk, readFully } from "../disk/disk.ts";
import { StartInterrupted } from "../recovery/open-options.ts";
import { FOREIGN_ID_LIMIT } from "../segments/segment-format.ts";

// Encoding of the records in beanstalkd's log files, versions 7 and 5. Little endian, no checksums.
//
//   int32 version, then records:
//   name length (7: 4 bytes, 5: 8) · tube name · struct (7: 80 bytes, 5: 77) · body with CRLF
//
// A name length of 0 marks a short record, without name and body. A struct with id 0 ends the file.

const BEANSTALKD_NAME_BYTES_MAX = 200;
const STRUCT_BYTES_7 = 80;

/** beanstalkd's states; a reserved job becomes ready. */
const BeanstalkdState = { deleted: 0, ready: 1, reserved: 2, buried: 3, delayed: 4 } as const;

/**
 * Differences between versions: width of the name length, length of the struct, time units per
 * second.
 */
interface BeanstalkdVersion {
  nameLengthBytes: number;
  structBytes: number;
  perSecond: number;
}

function beanstalkdVersion(version: number): BeanstalkdVersion | undefined {
  if (version === 7) return { nameLengthBytes: 4, structBytes: STRUCT_BYTES_7, perSecond: 1e9 };
  if (version === 5) return { nameLengthBytes: 8, structBytes: 77, perSecond: 1e6 };
  return undefined;
}

/** Reads a 64-bit number that fits into a double. */
function readInt64(view: DataView, at: number): number {
  return view.getInt32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true);
}

/** Fills `fields`, except the state, from the struct at `at`, and returns beanstalkd's state. */
function decodeStruct(view: DataView, at: number, version: BeanstalkdVersion, fields: RecordFields): number {
  const { perSecond } = version;
  assert(at + version.structBytes <= view.byteLength, "the struct of a job lies in its file");
  // Both versions are exact to the microsecond. A double holds microseconds since the epoch, but
  // not nanoseconds.
  const perMicrosecond = BigInt(perSecond / 1e6);
  const timeMs = (from: number) => Number(view.getBigInt64(from, true) / perMicrosecond) / 1000;
  fields.id = readInt64(view, at);
  fields.pri = view.getUint32(at + 8, true);
  fields.delaySeconds = Math.floor(readInt64(view, at + 16) / perSecond) >>> 0;
  fields.ttrSeconds = Math.floor(readInt64(view, at + 24) / perSecond) >>> 0;
  fields.createdAtMs = timeMs(at + 40);
  fields.deadlineAtMs = timeMs(at + 48);
  for (let k = 0; k < COUNTERS; k++) fields.counters[k] = view.getUint32(at + 56 + 4 * k, true);
  return view.getUint8(at + 76);
}

/** Returns the length of a full version 7 record; `bodyBytes` excludes CRLF. */
export function beanstalkdRecordBytes(tubeBytes: number, bodyBytes: number): number {
  assert(tubeBytes > 0 && tubeBytes <= BEANSTALKD_NAME_BYTES_MAX, "beanstalkd can read the name of a tube");
  return 4 + tubeBytes + STRUCT_BYTES_7 + bodyBytes + 2;
}

/** Writes a full record of version 7 and returns its length. */
export function encodeBeanstalkdRecord(
  to: Uint8Array,
  fields: RecordFields,
  tube: Uint8Array,
  body: Uint8Array,
): number {
  assert(to.length >= beanstalkdRecordBytes(tube.length, body.length), "a record has room for its job");
  const view = new DataView(to.buffer, to.byteOffset, to.length);
  const nanoseconds = (at: number, ms: number) =>
    view.setBigInt64(at, BigInt(Math.round(ms * 1000)) * 1000n, true);
  view.setInt32(0, tube.length, true);
  to.set(tube, 4);
  const at = 4 + tube.length;
  const state =
    fields.state === RecordState.buried
      ? BeanstalkdState.buried
      : fields.state === RecordState.delayed
        ? BeanstalkdState.delayed
        : BeanstalkdState.ready;
  to.fill(0, at, at + STRUCT_BYTES_7);
  view.setBigUint64(at, BigInt(fields.id), true);
  view.setUint32(at + 8, fields.pri, true);
  nanoseconds(at + 16, fields.delaySeconds * 1000);
  nanoseconds(at + 24, fields.ttrSeconds * 1000);
  view.setInt32(at + 32, body.length + 2, true);
  nanoseconds(at + 40, fields.createdAtMs);
  nanoseconds(at + 48, fields.deadlineAtMs);
  for (let k = 0; k < COUNTERS; k++) {
    const count = fields.counters[k]!;
    // beanstalkd adds one burial when it reads a buried job.
    const isCounted = k === JobCounter.buries && fields.state === RecordState.buried && count > 0;
    view.setUint32(at + 56 + 4 * k, isCounted ? count - 1 : count, true);
  }
  view.setUint8(at + 76, state);
  const bodyAt = at + STRUCT_BYTES_7;
  to.set(body, bodyAt);
  to[bodyAt + body.length] = 13;
  to[bodyAt + body.length + 1] = 10;
  return bodyAt + body.length + 2;
}

const NAME = /^binlog\.([1-9]\d{0,9})$/;

interface BeanstalkdJob {
  fields: RecordFields;
  tube: Uint8Array;
  /** The number of the file with the body, the body's offset, and its length without CRLF. */
  file: number;
  bodyAt: number;
  bodyBytes: number;
}

export interface BeanstalkdLog {
  files: number[];
  jobs: Map<number, BeanstalkdJob>;
  maxId: number;
  /** Warnings for the operator: the omitted parts, and why. */
  warnings: string[];
}

export function beanstalkdFileName(number: number): string {
  return `binlog.${number}`;
}

/** Returns the numbers of beanstalkd's files in a directory, ascending. */
export function beanstalkdFiles(disk: Disk): number[] {
  const numbers = disk.names().map((name) => Number(NAME.exec(name)?.[1] ?? 0));
  return numbers.filter((number) => number > 0).sort((a, b) => a - b);
}

export function readBeanstalkdFile(disk: Disk, number: number): Uint8Array {
  const handle = disk.open(beanstalkdFileName(number), "read");
  try {
    const bytes = new Uint8Array(disk.bytes(handle));
    return bytes.subarray(0, readFully(disk, handle, bytes, 0, bytes.length, 0));
  } finally {
    disk.close(handle);
  }
}

/** Throws a BinlogError at damage. With `salvage`, skips damaged parts and reports them instead. */
export function readBeanstalkdLog(disk: Disk, salvage: boolean, stopping?: () => boolean): BeanstalkdLog {
  const files = beanstalkdFiles(disk);
  const reader = new LogReader(disk.path, salvage);
  for (const [i, number] of files.entries()) {
    StartInterrupted.check(stopping);
    const before = files[i - 1];
    if (before !== undefined && number !== before + 1) {
      reader.damage(before + 1, 0, "the file is missing");
    }
    reader.readFile(number, readBeanstalkdFile(disk, number));
  }
  return { files, jobs: reader.jobs, maxId: reader.maxId, warnings: reader.warnings };
}

/** The content of one file. */
interface FileContent {
  readonly file: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly version: BeanstalkdVersion;
  /** Offset of the zeros at the end of the file. */
  readonly end: number;
}

class LogReader {
  readonly jobs = new Map<number, BeanstalkdJob>();
  readonly warnings: string[] = [];
  maxId = 0;
  readonly #path: string;
  readonly #salvage: boolean;
  #burials = 0;
  readonly #fields = emptyRecordFields();

  constructor(path: string, salvage: boolean) {
    this.#path = path;
    this.#salvage = salvage;
  }

  /** Throws, or records a warning when salvaging. */
  damage(file: number, offset: number, reason: string): void {
    const message = `${this.#path}/${beanstalkdFileName(file)} is damaged at offset ${offset}: ${reason}`;
    if (this.#salvage) {
      this.warnings.push(message);
      return;
    }
    throw new BinlogError(
      "BINLOG_CORRUPT",
      message,
      "Copy the directory, then start once with --salvage to take over everything intact.",
    );
  }

  #torn(file: number, offset: number, bytes: number): void {
    this.warnings.push(
      `${this.#path}/${beanstalkdFileName(file)}: left out an unfinished write, ${bytes} bytes at offset ${offset}`,
    );
  }

  readFile(file: number, bytes: Uint8Array): void {
    const end = lastNonZero(bytes) + 1;
    if (end === 0) return;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const number = bytes.length < 4 ? -1 : view.getInt32(0, true);
    const version = beanstalkdVersion(number);
    if (version === undefined) {
      if (bytes.length < 4) {
        this.#torn(file, 0, bytes.length);
        return;
      }
      throw new BinlogError(
        "BINLOG_VERSION",
        `${this.#path}/${beanstalkdFileName(file)} has version ${number}; this runnerbean can take over 5 and 7`,
        "Move the file out of the directory if it is not a log of beanstalkd. Nothing was changed.",
      );
    }
    const content = { file, bytes, view, version, end };
    let at = 4;
    while (at < end) {
      const next = this.#readRecord(content, at);
      if (next < 0) return;
      assert(next > at, "a record of beanstalkd has bytes");
      at = next;
    }
  }

  /** Reads the record at `at`; returns where the next one begins, or -1 at the end of the file. */
  #readRecord(content: FileContent, at: number): number {
    const { bytes, view, version } = content;
    if (at + 4 > bytes.length) return this.#stop(content, at, "");
    const nameBytes = view.getInt32(at, true);
    if (nameBytes < 0 || nameBytes > BEANSTALKD_NAME_BYTES_MAX)
      return this.#stop(content, at, `a tube name of ${nameBytes} bytes`);
    const structAt = at + version.nameLengthBytes + nameBytes;
    const next = structAt + version.structBytes;
    if (next > bytes.length) return this.#stop(content, at, "");
    const state = decodeStruct(view, structAt, version, this.#fields);
    if (this.#fields.id === 0)
      return this.#stopUnlessLast(content, at, next, "a record without id, followed by others");
    if (!isPossibleId(this.#fields.id))
      return this.#stopUnlessLast(content, at, next, `a record with the id ${this.#fields.id}`);
    // Every record has a creation time; a short one without it would look like a delete.
    if (this.#fields.createdAtMs === 0)
      return this.#stopUnlessLast(content, at, next, "a record without time of creation");
    if (nameBytes > 0) return this.#readPut(content, at, state, structAt);
    if (this.#stateIsKnown(content, at, state)) this.#update(state);
    return next;
  }

  /** Does the same for a record with tube and body. */
  #readPut(content: FileContent, at: number, state: number, structAt: number): number {
    const { file, bytes, view, version } = content;
    const { id } = this.#fields;
    const bodyAt = structAt + version.structBytes;
    const bodyBytes = view.getInt32(structAt + 32, true) - 2;
    if (bodyBytes < 0)
      return this.#stopUnlessLast(content, at, bodyAt, `job ${id} has a body of ${bodyBytes} bytes`);
    const next = bodyAt + bodyBytes + 2;
    if (next > bytes.length) return this.#stop(content, at, "");
    if (bytes[next - 2] !== CR || bytes[next - 1] !== LF)
      return this.#stopUnlessLast(content, at, next, `the body of job ${id} does not end with CRLF`);
    if (this.#stateIsKnown(content, at, state)) {
      const tube = bytes.slice(at + version.nameLengthBytes, structAt);
      this.#put(state, { fields: copyOfFields(this.#fields), tube, file, bodyAt, bodyBytes });
    }
    return next;
  }

  #stateIsKnown({ file }: FileContent, at: number, state: number): boolean {
    if (state <= BeanstalkdState.delayed) return true;
    this.damage(file, at, `job ${this.#fields.id} has state ${state}`);
    return false;
  }

  /**
   * Stops at a record that is invalid for this `reason`. If nothing follows it after `next`, the
   * write was incomplete.
   */
  #stopUnlessLast(content: FileContent, at: number, next: number, reason: string): number {
    return this.#stop(content, at, content.end <= next ? "" : reason);
  }

  /** Stops at `at`: at damage for this `reason`, or at an incomplete record if `reason` is "". */
  #stop({ file, bytes, view, version, end }: FileContent, at: number, reason: string): number {
    assert(at < end, "an incomplete record begins before the end");
    if (reason !== "") {
      this.damage(file, at, reason);
      return -1;
    }
    // beanstalkd only appends, so an incomplete record that nothing follows is an unfinished write.
    // Without checksums, anything after it that looks like a record means damage.
    const follows = findRecord(bytes, view, version, at + 1, end);
    if (follows < 0) this.#torn(file, at, end - at);
    else this.damage(file, at, `an incomplete record, but others follow at ${follows}`);
    return -1;
  }

  #put(state: number, job: BeanstalkdJob): void {
    assert(job.fields.id > 0 && job.bodyBytes >= 0, "a job that is taken over has an id and a body");
    const { fields } = job;
    this.maxId = Math.max(this.maxId, fields.id);
    const before = this.jobs.get(fields.id)?.fields;
    this.jobs.set(fields.id, job);
    this.#setState(state, fields, before);
  }

  #update(state: number): void {
    const job = this.jobs.get(this.#fields.id);
    if (job === undefined) return;
    const before = job.fields;
    job.fields = copyOfFields(this.#fields);
    this.#setState(state, job.fields, before);
  }

  #setState(state: number, fields: RecordFields, before: RecordFields | undefined): void {
    assert(state <= BeanstalkdState.delayed, "a job that is taken over has a known state");
    fields.burySequence = 0;
    if (state === BeanstalkdState.deleted) this.jobs.delete(fields.id);
    else if (state === BeanstalkdState.buried) {
      // A buried job that was only copied to another file keeps its place in the order.
      const moved =
        before?.state === RecordState.buried &&
        before.counters[JobCounter.buries] === fields.counters[JobCounter.buries];
      fields.burySequence = moved ? before.burySequence : ++this.#burials;
      fields.state = RecordState.buried;
    } else fields.state = state === BeanstalkdState.delayed ? RecordState.delayed : RecordState.ready;
    if (fields.state !== RecordState.delayed) fields.deadlineAtMs = 0;
  }
}

const isPossibleId = (id: number): boolean => id > 0 && id < FOREIGN_ID_LIMIT;

/** Returns the first offset from `from` on that looks like a record; -1 if none does. */
function findRecord(
  bytes: Uint8Array,
  view: DataView,
  version: BeanstalkdVersion,
  from: number,
  end: number,
): number {
  const fields = emptyRecordFields();
  for (let at = from; at + version.nameLengthBytes + version.structBytes <= end; at++) {
    const nameBytes = view.getInt32(at, true);
    if (nameBytes < 0 || nameBytes > BEANSTALKD_NAME_BYTES_MAX) continue;
    const structAt = at + version.nameLengthBytes + nameBytes;
    const bodyAt = structAt + version.structBytes;
    if (
      bodyAt > end ||
      view.getUint32(structAt + 12, true) !== 0 ||
      view.getUint32(structAt + 36, true) !== 0
    )
      continue;
    const state = decodeStruct(view, structAt, version, fields);
    const possible = isPossibleId(fields.id) && state <= BeanstalkdState.delayed;
    if (!possible || fields.createdAtMs < 1e9 || fields.createdAtMs > 1e14) continue;
    const next = bodyAt + view.getInt32(structAt + 32, true);
    if (
      nameBytes === 0 ||
      (next <= end && next >= bodyAt + 2 && bytes[next - 2] === CR && bytes[next - 1] === LF)
    ) {
      return at;
    }
  }
  return -1;
}

function lastNonZero(bytes: Uint8Array): number {
  let i = bytes.length - 1;
  while (i >= 0 && bytes[i] === 0) i--;
  return i;
}
