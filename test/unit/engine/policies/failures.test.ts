// Failures of jobs: which ended a connection, what they cost, and those of an edited log.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, Memory } from "../../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import type { Session } from "../../../../src/engine/state/session.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
} from "../../../../src/protocol/job-attribute.ts";
import {
  FAILURES_BYTES_MAX,
  type Failure,
  failuresAreWhole,
  REASON_BYTES_MAX,
  readFailures,
} from "../../../../src/protocol/job-failure.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { JobCounter } from "../../../../src/schema/job.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

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
}

describe("failures of a job", () => {
  it("are counted if the connection ended, for the job, its tube and the shard", () => {
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
