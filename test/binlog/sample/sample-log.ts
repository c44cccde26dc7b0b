// Small logs on a virtual disk with their expected content, for tests that damage them.

import { Memory } from "../../../src/base/bytes.ts";
import type { Storage } from "../../../src/binlog/live/storage.ts";
import { type OpenedBinlog, openBinlog } from "../../../src/binlog/open-binlog.ts";
import type { OpenOptions } from "../../../src/binlog/recovery/open-options.ts";
import { encodeTallied, encodeTally } from "../../../src/message/flow-record.ts";
import {
  emptyRecordFields,
  encodeDelete,
  encodePieceHead,
  encodePutHead,
  encodeSetting,
  encodeUpdate,
  type RecordFields,
  RecordState,
} from "../../../src/message/record.ts";
import { Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { JobCounter, type JobCounterName, type JobCounters } from "../../../src/schema/job.ts";
import { jobText, settingId } from "../model.ts";
import { VirtualDisk } from "../virtual-disk.ts";

export const SAMPLE_SEGMENT_BYTES = 32_768;

/** Options for a virtual disk, with the notices collected. */
export function virtualOptions(disk: VirtualDisk, notices: string[] = []): OpenOptions {
  let salt = 12_345;
  return {
    disk,
    shards: 1,
    segmentBytes: SAMPLE_SEGMENT_BYTES,
    syncEvery: 0,
    salvage: false,
    parallel: false,
    smallSegments: true,
    randomSalt: () => (salt = (salt * 48_271) % 0x7fff_ffff),
    wallMs: () => 1000,
    clockMs: () => 0,
    notice: (notice) => notices.push(`${notice.code} ${notice.message}`),
    progress: () => {},
  };
}

interface WrittenJob {
  fields: RecordFields;
  tube: string;
  body: string;
  /** Of a moved job: every UPDATE names its tube, and has all attributes. */
  attributes?: Buffer;
}

/** One shard that puts, changes and deletes jobs, and remembers what they are. */
export class JobWriter {
  readonly storage: Storage;
  readonly jobs = new Map<number, string>();
  readonly #fields = new Map<number, WrittenJob>();
  readonly #memory = Memory.ofSize(200_000);
  readonly #shard: number;
  n = 0;

  constructor(storage: Storage, shard = 0) {
    this.storage = storage;
    this.#shard = shard;
  }

  #append(length: number): void {
    this.storage.append(this.#shard, ++this.n, this.#memory.bytes, 0, length);
  }

  /** A record whose head is written, and this part of a body at `at` behind it. */
  #appendWith(part: Uint8Array, at: number): void {
    this.#memory.bytes.set(part, at);
    this.#append(at + part.length);
  }

  put(id: number, body: string, tube = "default", pieceBytes = 0): void {
    const fields = { ...emptyRecordFields(), id, pri: id % 7, ttrSeconds: 60, createdAtMs: 1000 + id };
    this.#fields.set(id, { fields, tube, body });
    this.jobs.set(id, jobText(fields, tube, body));
    const bytes = Buffer.from(body, "latin1");
    const inline = pieceBytes > 0 ? Math.min(pieceBytes, body.length) : body.length;
    const name = Buffer.from(tube, "latin1");
    const bodyAt = encodePutHead(this.#memory, 0, fields, name, body.length);
    this.#appendWith(bytes.subarray(0, inline), bodyAt);
    for (let at = inline; at < body.length; at += pieceBytes) {
      const length = Math.min(pieceBytes, body.length - at);
      this.#appendWith(bytes.subarray(at, at + length), encodePieceHead(this.#memory.view, 0, id, at));
    }
  }

  update(id: number, changes: Partial<RecordFields & JobCounters>): void {
    const job = this.#fields.get(id)!;
    for (const [name, value] of Object.entries(changes))
      if (name in JobCounter) job.fields.counters[JobCounter[name as JobCounterName]] = value as number;
      else Object.assign(job.fields, { [name]: value });
    this.#update(id, job);
  }

  #update(id: number, { fields, tube, body, attributes }: WrittenJob): void {
    this.jobs.set(id, jobText(fields, tube, body, attributes?.toString("hex") ?? ""));
    if (attributes === undefined) this.#append(encodeUpdate(this.#memory, 0, fields));
    else this.#append(encodeUpdate(this.#memory, 0, fields, Buffer.from(tube, "latin1"), attributes));
  }

  bury(id: number, burySequence: number): void {
    this.update(id, { state: RecordState.buried, burySequence, buries: 1 });
  }

  /**
   * The job goes to another tube and gets a time to live, so that its record becomes longer or
   * shorter.
   */
  move(id: number, tube: string, expiresAtMs: number): void {
    const job = this.#fields.get(id)!;
    job.tube = tube;
    const writer = new AttributeWriter(Memory.ofSize(1020));
    writer.float64(Attribute.ExpiresAt, expiresAtMs);
    job.attributes = Buffer.from(writer.bytes.subarray(0, writer.pad()));
    this.#update(id, job);
  }

  /** Sets something for the tubes of a pattern. */
  set(pattern: string, text: string): void {
    this.jobs.set(settingId(pattern), text);
    this.#append(encodeSetting(this.#memory, 0, Buffer.from(pattern), Buffer.from(text)));
  }

  /** The job is gone, and its key is remembered. */
  remember(id: number, key: string): void {
    const { fields, tube } = this.#fields.get(id)!;
    const writer = new AttributeWriter(Memory.ofSize(1020));
    writer.text(Attribute.UniqueKey, Buffer.from(key), 0, key.length);
    const attributes = Buffer.from(writer.bytes.subarray(0, writer.pad()));
    fields.state = RecordState.remembered;
    this.jobs.set(id, jobText(fields, tube, "", attributes.toString("hex")));
    this.#append(encodePutHead(this.#memory, 0, fields, Buffer.from(tube, "latin1"), 0, attributes));
  }

  /** The job is gone, as a member of a batch of which that many are done or failed now. */
  tally(id: number, batch: number, done: number, failed: number): void {
    this.jobs.delete(id);
    const { view } = this.#memory;
    const length = encodeTally(view, 0, id, batch, this.#shard);
    encodeTallied(view, 0, done, failed);
    this.#append(length);
  }

  delete(id: number): void {
    this.jobs.delete(id);
    this.#append(encodeDelete(this.#memory.view, 0, id));
  }

  /** Lets the storage do all that it wants to do. */
  settle(nowMs = 0): void {
    this.storage.flush(nowMs);
    for (let i = 0; i < 10_000 && this.storage.work(nowMs); i++) this.storage.flush(nowMs);
    this.storage.flush(nowMs);
  }
}

export async function openSample(disk: VirtualDisk): Promise<{ opened: OpenedBinlog; writer: JobWriter }> {
  const opened = await openBinlog(virtualOptions(disk));
  return { opened, writer: new JobWriter(opened.storage) };
}

/**
 * A log of some records of all kinds in one segment. `how` it ended: closed, killed while idle, or
 * killed right after a sync.
 */
export async function smallLog(
  how: "closed" | "idle" | "busy",
): Promise<{ disk: VirtualDisk; jobs: Map<number, string> }> {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  writer.put(1, "first");
  writer.settle(0);
  writer.put(2, "x".repeat(70), "mail");
  writer.put(3, "");
  writer.settle(10);
  writer.put(4, "p".repeat(100), "pieces", 40);
  writer.bury(2, 1);
  writer.update(3, { state: RecordState.delayed, deadlineAtMs: 9e12, pri: 99 });
  writer.delete(1);
  writer.settle(20);
  writer.set("mail", "max-jobs=5");
  writer.move(2, "letters", 9e12);
  writer.remember(4, "welcome:17");
  writer.settle(25);
  writer.put(5, "\0".repeat(120), "zeros");
  writer.settle(30);
  if (how === "closed") opened.storage.close(40);
  if (how === "idle") writer.settle(500);
  disk.kill();
  return { disk, jobs: writer.jobs };
}

/** A log of several segments with jobs of all kinds, closed. */
export async function largerLog(): Promise<{ disk: VirtualDisk; jobs: Map<number, string> }> {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  for (let id = 1; id <= 200; id++) {
    writer.put(
      id,
      String.fromCharCode(97 + (id % 26)).repeat(300 + (id % 50)),
      id % 3 === 0 ? "mail" : "default",
    );
    if (id % 10 === 0 && writer.jobs.has(id - 5)) writer.bury(id - 5, id);
    if (id % 17 === 0) writer.delete(id - 2);
    if (id % 13 === 0 && writer.jobs.has(id)) writer.move(id, id % 2 === 0 ? "m" : "a-longer-name", id);
    if (id === 20) writer.set("m*", "max-attempts=3");
    if (id % 5 === 0) writer.settle(id);
  }
  opened.storage.close(1000);
  return { disk, jobs: writer.jobs };
}
