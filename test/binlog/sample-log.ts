// Small logs on a virtual disk, with what they hold, for tests that damage them.

import { Memory } from "../../src/base/memory.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import { type OpenedBinlog, openBinlog } from "../../src/binlog/open-binlog.ts";
import type { OpenOptions } from "../../src/binlog/recovery/open-options.ts";
import {
  emptyRecordFields,
  encodeDelete,
  encodePieceHead,
  encodePutHead,
  encodeUpdate,
  type RecordFields,
  RecordState,
} from "../../src/message/record.ts";
import { jobText } from "./model.ts";
import { VirtualDisk } from "./virtual-disk.ts";

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

/** One shard that puts, changes and deletes jobs, and remembers what they are. */
export class JobWriter {
  readonly storage: Storage;
  readonly jobs = new Map<number, string>();
  readonly #fields = new Map<number, { fields: RecordFields; tube: string; body: string }>();
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

  update(id: number, changes: Partial<RecordFields>): void {
    const job = this.#fields.get(id)!;
    Object.assign(job.fields, changes);
    this.jobs.set(id, jobText(job.fields, job.tube, job.body));
    this.#append(encodeUpdate(this.#memory.view, 0, job.fields));
  }

  bury(id: number, burySequence: number): void {
    this.update(id, { state: RecordState.buried, burySequence, buries: 1 });
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

/** A log of a dozen records in one segment. `how` it ended: closed, killed while idle, or killed right after a sync. */
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
    if (id % 5 === 0) writer.settle(id);
  }
  opened.storage.close(1000);
  return { disk, jobs: writer.jobs };
}
