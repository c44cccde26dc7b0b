// Failures of jobs: how many are kept, what they cost, and their way through the log's records.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, Memory } from "../../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import type { Session } from "../../../../src/engine/state/session.ts";
import {
  attributeBytesOf,
  emptyRecordFields,
  encodePutHead,
  encodeUpdate,
  mergeHead,
  RECORD_FIXED_BYTES,
  RECORD_TAIL_BYTES_MAX,
  recordHeadBytes,
  UPDATE_BYTES_MAX,
} from "../../../../src/message/record.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
} from "../../../../src/protocol/job-attribute.ts";
import {
  FAILURES_BYTES_MAX,
  FAILURES_MAX,
  type Failure,
  failuresAreWhole,
  REASON_BYTES_MAX,
  readFailures,
  WORKER_BYTES_MAX,
} from "../../../../src/protocol/job-failure.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { JobCounter } from "../../../../src/schema/job.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

const NONE = new Uint8Array(0);

function span(text: string): Span {
  const made = new Span();
  made.set(Buffer.from(text, "latin1"), 0, text.length);
  return made;
}

class Scene {
  readonly engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
    workerName: (session, job, into, at) => {
      const name = asciiBytes("w".repeat(session) + (job > 1 ? job : ""));
      into.set(name, at);
      return name.length;
    },
  });

  session(index = 1): Session {
    const session = this.engine.session(index);
    this.engine.use(session, "default");
    return session;
  }

  put(id: number): void {
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 1, bodyBytes: 0, atMs: 0 };
    assert.equal(this.engine.put(this.session(), job, EMPTY_BODY, 0), Outcome.Done);
  }

  /** Reserves a job and buries it for this reason. */
  fail(id: number, reason: string, nowMs: number, session = this.session()): void {
    assert.equal(this.engine.reserveJob(session, id, nowMs), Outcome.Done);
    assert.equal(this.engine.bury(session, id, 0, nowMs, span(reason)), Outcome.Done);
  }

  failures(id: number): Failure[] {
    return readFailures(this.engine.policies.failures.of(this.engine.find(id)));
  }

  /** The attributes of the job's UPDATE. */
  attributes(id: number, wallOffsetMs: number): Uint8Array {
    const writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
    this.engine.policies.attributes.writeMutable(this.engine.find(id), writer, wallOffsetMs);
    return writer.bytes.slice(0, writer.pad());
  }
}

describe("failures of a job", () => {
  it("are the last five, newest first, with attempt, cause, time, worker and reason", () => {
    const scene = new Scene();
    scene.put(1);
    for (let n = 1; n <= 7; n++) scene.fail(1, `r${n}`, n * 10, scene.session(n));
    assert.deepEqual(
      scene.failures(1),
      [7, 6, 5, 4, 3].map((n) => ({
        ...{ atMs: n * 10, attempt: n, cause: "buried", worker: "w".repeat(n), reason: `r${n}` },
      })),
    );
  });

  it("come from a release with a reason, a timeout and the end of a connection", () => {
    const scene = new Scene();
    const { engine } = scene;
    scene.put(1);
    engine.reserveJob(scene.session(), 1, 0);
    engine.release(scene.session(), 1, 0, 0, 0);
    assert.deepEqual(scene.failures(1), [], "without a reason, a release is none");
    engine.reserveJob(scene.session(), 1, 0);
    engine.release(scene.session(), 1, 0, 0, 0, span("\0\xff"));
    engine.reserveJob(scene.session(), 1, 0);
    engine.runDue(1001);
    engine.reserveJob(scene.session(2), 1, 1001);
    engine.closeSession(scene.session(2), 1002);
    const causes = scene.failures(1).map(({ cause, attempt, reason }) => [cause, attempt, reason]);
    assert.deepEqual(causes, [
      ["disconnected", 4, ""],
      ["timed-out", 3, ""],
      ["released", 2, "\0\xff"],
    ]);
    // A job that its client never got has not failed.
    engine.reserveJob(scene.session(), 1, 1002);
    engine.giveBackOne(scene.session(), 1, 1002);
    assert.equal(scene.failures(1).length, 3);
  });

  it("are counted if the connection ended, for the job, its tube and the shard, and in the log", () => {
    const scene = new Scene();
    const { engine } = scene;
    const { failures } = engine.policies;
    scene.put(1);
    const lose = (id: number, nowMs: number): void => {
      engine.reserveJob(scene.session(2), id, nowMs);
      engine.closeSession(scene.session(2), nowMs);
    };
    for (let n = 1; n <= 7; n++) lose(1, n);
    engine.reserveJob(scene.session(), 1, 8);
    engine.giveBackOne(scene.session(), 1, 8);
    engine.reserveJob(scene.session(3), 1, 9);
    scene.session(3).endsWithServer = true;
    engine.closeSession(scene.session(3), 9);
    engine.reserveJob(scene.session(), 1, 10);
    engine.runDue(1011);
    const slot = engine.find(1);
    const tube = engine.tubeOf(slot);
    const disconnectsOf = (job: number): number =>
      engine.jobs.pageOf(job).count(rowOf(job), JobCounter.disconnects);
    assert.deepEqual([disconnectsOf(slot), tube.disconnects, engine.jobDisconnects], [7, 7, 7]);
    assert.deepEqual([failures.lostJobOf(tube), scene.failures(1).length], [slot, 5]);
    const bytes = scene.attributes(1, 0);
    const read = new JobAttributes().read(bytes, 0, bytes.length, 0);
    assert.equal(read.rareCounters[0], 7);
    engine.delete(scene.session(), 1, 1012);
    assert.equal(failures.lostJobOf(tube), NO_SLOT, "the job is gone");
    scene.put(1);
    assert.equal(disconnectsOf(engine.find(1)), 0, "another job in the same row");
  });

  it("name the job that lately lost the most workers", () => {
    const scene = new Scene();
    const { engine } = scene;
    const lose = (id: number, nowMs: number): void => {
      engine.reserveJob(scene.session(2), id, nowMs);
      engine.closeSession(scene.session(2), nowMs);
    };
    for (const id of [1, 2, 3]) scene.put(id);
    const worst = (): number =>
      engine.jobs.pageOf(0).id[rowOf(engine.policies.failures.lostJobOf(engine.tubes.get("default")!))]!;
    lose(1, 1);
    lose(1, 2);
    lose(2, 3);
    assert.equal(worst(), 1);
    lose(2, 4);
    assert.equal(worst(), 2, "of two, the later one");
    lose(3, 600_004);
    assert.equal(worst(), 2);
    lose(3, 600_005);
    assert.equal(worst(), 3, "the other lost none for ten minutes");
  });

  it("cost nothing before the first one, and nothing after the job", () => {
    const scene = new Scene();
    const { engine } = scene;
    scene.put(1);
    scene.put(2);
    const before = engine.memoryBytes;
    engine.reserveJob(scene.session(), 1, 0);
    engine.release(scene.session(), 1, 0, 0, 0);
    assert.equal(engine.memoryBytes, before);
    assert.equal(engine.jobs.pageOf(engine.find(1)).failures, undefined);
    scene.fail(1, "x".repeat(REASON_BYTES_MAX), 0);
    assert.ok(engine.memoryBytes > before + REASON_BYTES_MAX);
    engine.delete(scene.session(), 1, 0);
    assert.equal(engine.bodies.usedBytes, 0);
    engine.delete(scene.session(), 2, 0);
    scene.put(3);
    scene.put(4);
    assert.equal(engine.memoryBytes, before);
    assert.deepEqual(scene.failures(3), []);
  });

  it("are not kept beyond the memory limit, and no command fails for it", () => {
    const scene = new Scene();
    scene.put(1);
    scene.fail(1, "kept", 0);
    scene.engine.kickJob(1, 0);
    scene.engine.bodies.limit = { allows: false };
    scene.fail(1, "not kept", 0);
    assert.deepEqual(
      scene.failures(1).map(({ reason }) => reason),
      ["kept"],
    );
  });
});

describe("failures in the log", () => {
  it("come back in other times, whatever the length of five reasons", () => {
    for (const length of [0, 1, 190, 239, 240, 241, 900, REASON_BYTES_MAX]) {
      const scene = new Scene();
      scene.put(1);
      const worker = scene.session(WORKER_BYTES_MAX);
      for (let n = 1; n <= FAILURES_MAX; n++) scene.fail(1, "\xff".repeat(length), n, worker);
      const update = scene.attributes(1, 5000);
      const read = new JobAttributes().read(update, 0, update.length, 4000);
      assert.ok(read.hasOnlyFailures);
      assert.deepEqual(
        readFailures(read.failures),
        scene.failures(1).map((failure) => ({ ...failure, atMs: failure.atMs + 1000 })),
      );
    }
  });

  it("are in the latest UPDATE, long or short, and go with it into a new PUT", () => {
    const fields = { ...emptyRecordFields(), id: 7 };
    const tube = asciiBytes("t".repeat(200));
    const lists = [0, 30, 900, REASON_BYTES_MAX].map((length) => {
      const scene = new Scene();
      scene.put(1);
      if (length > 0) for (let n = 0; n < FAILURES_MAX; n++) scene.fail(1, "r".repeat(length), 0);
      return scene.attributes(1, 0);
    });
    assert.ok(lists.some(({ length }) => length > ATTRIBUTE_BYTES_MAX));
    for (const before of lists)
      for (const after of lists) {
        const put = Memory.ofSize(RECORD_FIXED_BYTES + RECORD_TAIL_BYTES_MAX);
        encodePutHead(put, 0, fields, tube, 0, before);
        const update = Memory.ofSize(UPDATE_BYTES_MAX);
        const length = encodeUpdate(update, 0, fields, NONE, after);
        assert.equal(recordHeadBytes(update.view, 0), length);
        const merged = Memory.ofSize(RECORD_FIXED_BYTES + RECORD_TAIL_BYTES_MAX);
        assert.equal(mergeHead(merged, put, 0, update, 0), recordHeadBytes(merged.view, 0));
        const at = RECORD_FIXED_BYTES + tube.length;
        assert.deepEqual(merged.bytes.slice(at, at + attributeBytesOf(merged.view, 0)), after);
      }
  });

  it("are dropped if somebody has edited them, whatever the bytes", () => {
    const writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
    for (let bytes = 1; bytes < 40; bytes++) {
      for (const byte of [0, 1, 63, 0xff]) {
        const edited = new Uint8Array(bytes).fill(byte);
        writer.clear();
        writer.text(Attribute.Failures, edited, 0, bytes);
        const read = new JobAttributes().read(writer.bytes, 0, writer.length, 0);
        assert.equal(read.failures.length, failuresAreWhole(edited) ? bytes : 0);
      }
    }
    assert.equal(failuresAreWhole(new Uint8Array(16 * 6)), false, "no more than five");
    assert.equal(failuresAreWhole(new Uint8Array(FAILURES_BYTES_MAX + 1)), false);
  });
});
