// Tests of the most that the log's files take: twice what is live and two segments, at any moment.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Storage } from "../../../../src/binlog/live/storage.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { JobWriter, SAMPLE_SEGMENT_BYTES, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

const MIB = 1 << 20;
const BODY = "x".repeat(400);
/** More than the records of a job that comes and goes. */
const JOB_BYTES = 600;

/** A log that a client uses, job by job, with one slice of work after each. */
class UsedLog {
  readonly disk = new VirtualDisk();
  readonly segmentBytes: number;
  readonly beforeWork: (storage: Storage) => void;
  storage!: Storage;
  #writer!: JobWriter;
  #id = 0;
  #nowMs = 0;

  constructor(segmentBytes: number, beforeWork: (storage: Storage) => void = () => {}) {
    this.segmentBytes = segmentBytes;
    this.beforeWork = beforeWork;
  }

  async open(): Promise<void> {
    const options = { ...virtualOptions(this.disk), segmentBytes: this.segmentBytes };
    this.storage = (await openBinlog(options)).storage;
    this.#writer = new JobWriter(this.storage);
    this.rest();
  }

  close(): void {
    this.rest();
    this.storage.close(this.#nowMs);
  }

  rest(): void {
    this.storage.flush(++this.#nowMs);
    while (this.storage.work(this.#nowMs)) {}
  }

  /** Puts jobs that stay. */
  keep(bytes: number): void {
    while (this.storage.table.liveBytes < bytes) {
      this.#writer.put(++this.#id, BODY);
      this.#step();
    }
  }

  /** Puts and deletes jobs with records of so many bytes together. */
  pass(bytes: number): void {
    for (let passed = 0; passed < bytes; passed += JOB_BYTES) {
      this.#writer.put(++this.#id, BODY);
      this.#writer.delete(this.#id);
      this.#step();
    }
  }

  #step(): void {
    this.storage.flush(++this.#nowMs);
    this.beforeWork(this.storage);
    this.storage.work(this.#nowMs);
    const { table } = this.storage;
    const promised = 2 * (table.liveBytes + this.segmentBytes);
    const excess = table.fileBytes() - promised;
    assert.ok(excess <= 0, `${excess} bytes more than promised, with ${table.liveBytes} live`);
  }
}

describe("the log's files take what is promised at most", () => {
  for (const kept of [0, 0.1, 0.35, 0.7, 1, 1.5, 3])
    for (const dead of [0, 0.1, 0.25])
      it(`with ${kept} segments live, and ${dead} dead from before a restart`, async () => {
        const log = new UsedLog(MIB);
        await log.open();
        log.keep(kept * MIB);
        log.close();
        await log.open();
        log.pass(dead * MIB);
        log.close();
        await log.open();
        log.pass(5 * MIB);
        log.close();
      });

  it("while a backup wants a cut as soon as a segment is full", async () => {
    let cuts = 0;
    let seen = 0;
    const log = new UsedLog(SAMPLE_SEGMENT_BYTES, ({ cut, table }) => {
      if (cut.state === "made" || cut.state === "refused") cut.want(0);
      const left = table.all[table.sealedCount - 1];
      if (left === undefined || left.number === seen) return;
      seen = left.number;
      if (left.fileBytes > SAMPLE_SEGMENT_BYTES / 2 && cut.state === "none") cut.want(++cuts);
    });
    await log.open();
    log.keep(3400);
    log.close();
    await log.open();
    log.pass(20 * SAMPLE_SEGMENT_BYTES);
    assert.ok(cuts > 5, `${cuts} cuts`);
    assert.equal(log.storage.cut.number, 0, "each is made and given back");
    log.close();
  });
});
